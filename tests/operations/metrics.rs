//! Each metric moves when what it counts happens, and nothing else makes series.

use std::time::Duration;

use rustix::process::Signal;
use samekey::observe::{Kind, METRICS};
use support::patience::patiently;
use support::{Gate, Reply, Request, Scrape, Serve, Server, Upstream};

const OPERATIONS: &str = r#"
[[operation]]
name = "orders.create"
method = "POST"
path = "/orders"
key = "required"

[[operation]]
name = "orders.pay"
method = "POST"
path = "/orders/{id}/pay"

[[operation]]
name = "legacy"
method = "POST"
path = "/legacy"
key = "ignore"
"#;

/// Only where an operation has a probe that was asked.
const SELDOM: &[&str] = &["samekey_probes_total"];

/// A series that is to move, and by how much.
type Moves<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)], f64)];

/// A server whose counters are looked at between steps.
struct Watched {
    upstream: Upstream,
    samekey: Server,
    last: Scrape,
}

impl Watched {
    async fn start(change: impl FnOnce(Serve) -> Serve) -> Self {
        let upstream = Upstream::start().await;
        let samekey = change(Serve::before(&upstream).config(OPERATIONS)).start().await;
        let last = samekey.scrape().await;
        Self { upstream, samekey, last }
    }

    /// All of these moved since the last look, by so much.
    async fn moved(&mut self, moves: Moves<'_>) {
        let now = self.samekey.scrape().await;
        for (name, labels, by) in moves {
            let (before, after) = (self.last.sum(name, labels), now.sum(name, labels));
            assert!((after - before - by).abs() < 1e-9, "{name} {labels:?}: {before}, then {after}\n{}", now.text());
        }
        self.last = now;
    }

    async fn send(&self, request: &Request) -> support::Answer {
        self.samekey.send(request).await
    }
}

const ORDER: (&str, &str) = ("operation", "orders.create");

#[tokio::test]
async fn requests_are_counted_by_what_was_decided() {
    let mut watched = Watched::start(|serve| serve).await;
    let order = Request::order("k");
    watched.send(&order).await.ran(201, "completed", 1);
    watched
        .moved(&[
            ("samekey_requests_total", &[ORDER, ("decision", "claimed"), ("code", "")], 1.0),
            ("samekey_request_duration_seconds_count", &[ORDER, ("decision", "claimed")], 1.0),
            ("samekey_handler_duration_seconds_count", &[ORDER, ("http_response_status_class", "2xx")], 1.0),
            ("samekey_transitions_total", &[ORDER, ("from", "none"), ("to", "in_progress"), ("by", "delivery")], 1.0),
            (
                "samekey_transitions_total",
                &[ORDER, ("from", "in_progress"), ("to", "completed"), ("by", "handler")],
                1.0,
            ),
            ("samekey_store_batch_records_sum", &[], 2.0),
            ("samekey_store_commit_duration_seconds_count", &[], 2.0),
            ("samekey_in_flight", &[ORDER], 0.0),
        ])
        .await;
    assert!(watched.send(&order).await.replayed());
    watched.send(&Request::post("/orders").key("k").json("[]")).await;
    watched.send(&Request::new("GET", "/orders")).await;
    watched
        .moved(&[
            ("samekey_requests_total", &[ORDER, ("decision", "replayed"), ("code", "")], 1.0),
            ("samekey_request_duration_seconds_count", &[ORDER, ("decision", "replayed")], 1.0),
            ("samekey_requests_total", &[ORDER, ("decision", "refused"), ("code", "key_payload_mismatch")], 1.0),
            ("samekey_requests_total", &[("operation", "other"), ("decision", "passed")], 1.0),
            ("samekey_request_duration_seconds_count", &[("operation", "other"), ("decision", "passed")], 1.0),
            ("samekey_store_commit_duration_seconds_count", &[], 0.0),
            ("samekey_transitions_total", &[], 0.0),
        ])
        .await;
}

#[tokio::test]
async fn commands_without_protection_are_counted_by_why() {
    let mut watched = Watched::start(|serve| serve).await;
    watched.send(&Request::post("/orders/7/pay").json("{}")).await;
    watched.send(&Request::post("/legacy").key("k").json("{}")).await;
    watched.send(&Request::new("PUT", "/anything").key("k").json("{}")).await;
    watched.send(&Request::order("k").anonymous()).await;
    watched.send(&Request::new("GET", "/orders")).await;
    let reason = |operation, reason| [("operation", operation), ("reason", reason)];
    watched
        .moved(&[
            ("samekey_unprotected_requests_total", &reason("orders.pay", "no_key"), 1.0),
            ("samekey_unprotected_requests_total", &reason("legacy", "ignored"), 1.0),
            ("samekey_unprotected_requests_total", &reason("other", "ignored"), 1.0),
            ("samekey_unprotected_requests_total", &reason("orders.create", "no_actor"), 1.0),
            ("samekey_unprotected_requests_total", &[], 4.0),
        ])
        .await;
}

#[tokio::test]
async fn running_and_waiting_is_seen_while_it_lasts() {
    let mut watched = Watched::start(|serve| serve.waits("20s", "25s")).await;
    let gate = Gate::new();
    watched.upstream.next(Reply::json(201, "{}").gated(&gate));
    let order = Request::order("k");
    let running = watched.samekey.spawn(&order);
    watched.upstream.ledger().arrived(1).await;
    let waiting = watched.samekey.spawn(&order);
    watched.samekey.until_scraped("samekey_waiters", &[ORDER], |waiters| waiters == 1.0).await;
    watched.moved(&[("samekey_in_flight", &[ORDER], 1.0), ("samekey_waiters", &[ORDER], 1.0)]).await;
    gate.open();
    running.await.expect("an answer").ran(201, "completed", 1);
    assert!(waiting.await.expect("an answer").replayed());
    watched
        .moved(&[
            ("samekey_in_flight", &[ORDER], -1.0),
            ("samekey_waiters", &[ORDER], -1.0),
            ("samekey_requests_total", &[ORDER, ("decision", "waited")], 1.0),
        ])
        .await;
}

#[tokio::test]
async fn an_uncertain_outcome_is_seen_with_its_age() {
    let mut watched = Watched::start(|serve| serve).await;
    let began = std::time::SystemTime::now();
    watched.upstream.next(Reply::reset());
    watched.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    watched
        .moved(&[
            ("samekey_requests_total", &[ORDER, ("decision", "refused"), ("code", "outcome_uncertain")], 1.0),
            ("samekey_handler_duration_seconds_count", &[ORDER, ("http_response_status_class", "none")], 1.0),
            ("samekey_transitions_total", &[ORDER, ("to", "uncertain"), ("by", "handler")], 1.0),
        ])
        .await;
    let uncertain = ("state", "uncertain");
    watched.samekey.until_scraped("samekey_records", &[ORDER, uncertain], |records| records == 1.0).await;
    let scrape = watched.samekey.scrape().await;
    let since = scrape.sum("samekey_uncertain_oldest_timestamp_seconds", &[ORDER]);
    let began = began.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    assert!((since - began).abs() < 30.0, "{since}, and it was sent at {began}");
    assert_eq!(scrape.sum("samekey_uncertain_oldest_timestamp_seconds", &[("operation", "orders.pay")]), 0.0);
    assert_eq!(scrape.sum("samekey_records", &[]), 1.0, "{}", scrape.text());
    assert!(scrape.sum("samekey_store_size_bytes", &[]) > 4096.0);
    // Whoever starts on the same file sees the same.
    let again = watched.samekey.stop().await.start().await;
    again.until_scraped("samekey_records", &[ORDER, uncertain], |records| records == 1.0).await;
}

#[tokio::test]
async fn a_holder_that_fell_silent_is_counted() {
    let watched = Watched::start(support::Serve::quick).await;
    watched.upstream.next(Reply::silence());
    let order = Request::order("k");
    let running = watched.samekey.spawn(&order);
    watched.upstream.ledger().arrived(1).await;
    let samekey = watched.samekey.kill().await.start().await;
    running.abort();
    samekey.until(&order, |answer| answer.receipt().state == "uncertain").await;
    let scrape = samekey.scrape().await;
    assert_eq!(scrape.sum("samekey_leases_lapsed_total", &[ORDER]), 1.0, "{}", scrape.text());
    let by_lease = [ORDER, ("from", "in_progress"), ("to", "uncertain"), ("by", "lease")];
    assert_eq!(scrape.sum("samekey_transitions_total", &by_lease), 1.0);
    let lapsed = samekey.logs.line_with("event=\"lease_lapsed\"").await.expect("an event");
    assert!(lapsed.contains("attempt=1") && lapsed.contains("key_hash="), "{lapsed}");
    samekey.logs.line_with("event=\"uncertain\"").await.expect("an event");
}

#[tokio::test]
async fn an_attempt_that_ends_too_late_is_counted() {
    let mut watched = Watched::start(|serve| serve).await;
    let gate = Gate::new();
    watched.upstream.next(Reply::json(201, "{}").gated(&gate));
    let running = watched.samekey.spawn(&Request::order("k"));
    watched.upstream.ledger().arrived(1).await;
    // As if another process had judged the claim and given it to somebody else.
    let file = rusqlite::Connection::open(watched.samekey.serve().store()).expect("the store");
    file.execute("UPDATE idempotency_keys SET attempt = 2, holder = randomblob(16)", []).expect("an update");
    gate.open();
    assert_eq!(running.await.expect("an answer").status, 409);
    watched.moved(&[("samekey_stale_finishes_total", &[ORDER], 1.0)]).await;
    watched.samekey.logs.line_with("event=\"stale_finish\"").await.expect("an event");
}

#[tokio::test]
async fn what_the_store_cannot_do_is_counted_by_kind() {
    let mut watched = Watched::start(|serve| serve).await;
    let file = rusqlite::Connection::open(watched.samekey.serve().store()).expect("the store");
    file.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    watched.send(&Request::order("k")).await.refuses(503, "overloaded", "retry_same_key", "unknown");
    file.execute_batch("COMMIT").expect("an end");
    watched
        .moved(&[
            ("samekey_store_errors_total", &[("kind", "busy")], 1.0),
            ("samekey_store_errors_total", &[], 1.0),
            ("samekey_requests_total", &[ORDER, ("code", "overloaded")], 1.0),
        ])
        .await;
    assert_eq!(watched.last.sum("samekey_store_queue_capacity", &[]), 4096.0);
    assert_eq!(watched.last.sum("samekey_store_queue_length", &[]), 0.0);
}

#[tokio::test]
async fn a_queue_that_stands_still_is_seen() {
    let watched = Watched::start(|serve| serve).await;
    let file = rusqlite::Connection::open(watched.samekey.serve().store()).expect("the store");
    file.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let asked: Vec<_> = (0..5).map(|key| watched.samekey.spawn(&Request::order(&format!("k-{key}")))).collect();
    watched.samekey.until_scraped("samekey_store_queue_length", &[], |length| length >= 4.0).await;
    file.execute_batch("COMMIT").expect("an end");
    for asked in asked {
        asked.await.expect("an answer");
    }
    watched.samekey.until_scraped("samekey_store_queue_length", &[], |length| length == 0.0).await;
}

#[tokio::test]
async fn a_client_that_makes_a_key_for_each_retry_is_suspected() {
    let mut watched = Watched::start(|serve| serve).await;
    for key in ["k-1", "k-2"] {
        watched.send(&Request::order(key)).await.ran(201, "completed", 1);
    }
    watched.moved(&[("samekey_suspected_duplicates_total", &[ORDER], 1.0)]).await;
    let told = watched.samekey.logs.line_with("event=\"suspected_duplicate\"").await.expect("an event");
    assert!(told.contains("actor_hash=") && !told.contains("k-2"), "{told}");
    watched.send(&Request::order("k-3").actor("Bearer token-of-bob")).await;
    watched.send(&Request::post("/orders").key("k-4").json(r#"{"sku":"coffee"}"#)).await;
    for key in ["k-5", "k-6"] {
        watched.send(&Request::post("/orders/7/pay").key(key)).await;
    }
    watched.moved(&[("samekey_suspected_duplicates_total", &[], 0.0)]).await;
}

#[tokio::test]
async fn a_configuration_that_could_not_be_read_anew_is_seen() {
    let watched = Watched::start(|serve| serve).await;
    assert_eq!(watched.last.sum("samekey_config_last_reload_success", &[]), 1.0);
    let file = watched.samekey.serve().folder().join("samekey.toml");
    std::fs::write(&file, "nonsense = 1\n").expect("a configuration");
    watched.samekey.signal(Signal::HUP);
    watched.samekey.until_scraped("samekey_config_last_reload_success", &[], |success| success == 0.0).await;
    std::fs::write(&file, OPERATIONS).expect("a configuration");
    watched.samekey.signal(Signal::HUP);
    watched.samekey.until_scraped("samekey_config_last_reload_success", &[], |success| success == 1.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_make_no_series() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).config(OPERATIONS).start().await;
    // Everything once, so that its series are there.
    let some = |number: usize| {
        let path = format!("/unheard/of/{number}?x={number}");
        let body = format!("{{\"number\":{number}}}");
        match number % 4 {
            0 => Request::post(&path).key(format!("k-{number}")).json(&body),
            1 => Request::post(&path).json(&body),
            2 => Request::new("PUT", &path).key(format!("k-{number}")).json(&body),
            _ => Request::new("GET", &path),
        }
    };
    for number in 0..8 {
        samekey.send(&some(number)).await;
    }
    let before = samekey.scrape().await;
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let requests: Vec<Request> = (0..1250).map(|number| some(8 + client * 1250 + number)).collect();
            let addr = samekey.addr;
            tokio::spawn(async move {
                let mut connection = support::Connection::open(addr).await;
                for request in &requests {
                    connection.exchange(request).await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("all answers");
    }
    let after = samekey.scrape().await;
    assert_eq!(after.series(), before.series(), "{}", after.text());
    let operations: Vec<String> = after.values("operation").into_iter().collect();
    assert_eq!(operations, ["legacy", "orders.create", "orders.pay", "other"]);
    let other = [("operation", "other")];
    let requests = |scrape: &Scrape| scrape.sum("samekey_requests_total", &other);
    assert_eq!(requests(&after) - requests(&before), 10_000.0);
    assert!(!after.text().contains("unheard"), "no path is told");
    assert!(after.text().len() < 64 << 10, "{} bytes", after.text().len());
}

#[tokio::test]
async fn a_scrape_holds_what_the_table_says() {
    let watched = Watched::start(|serve| serve).await;
    watched.send(&Request::order("k")).await.ran(201, "completed", 1);
    watched.send(&Request::post("/legacy").json("{}")).await;
    let scrape = patiently("the first look at the records", async {
        loop {
            let scrape = watched.samekey.scrape().await;
            if scrape.kinds().contains_key("samekey_records") {
                return scrape;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    for metric in METRICS.iter().filter(|metric| !SELDOM.contains(&metric.name)) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram { .. } => "histogram",
        };
        assert_eq!(scrape.kinds().get(metric.name).map(String::as_str), Some(kind), "{}", metric.name);
        assert!(scrape.helps().contains(metric.name), "{} has a help text", metric.name);
        let labels: Vec<String> = scrape.labels(metric.name).into_iter().collect();
        let mut declared = metric.labels.to_vec();
        declared.sort_unstable();
        assert_eq!(labels, declared, "labels of {}", metric.name);
    }
    for name in scrape.kinds().keys() {
        let known = name.starts_with("process_") || METRICS.iter().any(|metric| metric.name == name);
        assert!(known, "{name} stands in no table");
    }
    let version = [("version", env!("CARGO_PKG_VERSION")), ("fingerprint", "fp1")];
    assert_eq!(scrape.sum("samekey_build_info", &version), 1.0);
    for name in ["process_cpu_seconds_total", "process_open_fds", "process_resident_memory_bytes"] {
        assert!(scrape.kinds().contains_key(name), "{name}");
    }
}
