//! The fields of the JSON log, and the trace that a request belongs to.

use serde_json::Value;
use support::{Reply, Request, Serve, Server, Upstream};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OPERATION: &str = "[[operation]]\nname = \"orders.pay\"\nmethod = \"POST\"\npath = \"/orders/{id}/pay\"\n";

async fn server(upstream: &Upstream) -> Server {
    Serve::before(upstream).config(OPERATION).set("--log", "json").start().await
}

fn pay(key: &str) -> Request {
    Request::post("/orders/7/pay").key(key).json("{}").header("X-Request-Id", format!("r-{key}"))
}

/// The event of this name about this request.
async fn event(samekey: &Server, event: &str, request_id: &str) -> Value {
    let name = format!("\"event\":\"{event}\",\"request_id\":\"{request_id}\"");
    let line = samekey.logs.line_with(&name).await.unwrap_or_else(|| panic!("no {event} of {request_id}"));
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[tokio::test]
async fn a_request_is_told_with_all_its_fields() {
    let upstream = Upstream::start().await;
    let samekey = server(&upstream).await;
    samekey.send(&pay("k-1").header("traceparent", PARENT)).await.ran(201, "completed", 1);
    let told = event(&samekey, "request", "r-k-1").await;
    let members: Vec<&str> = told.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = vec![
        "ts",
        "level",
        "event",
        "request_id",
        "trace_id",
        "operation",
        "decision",
        "state",
        "attempt",
        "record",
        "key_hash",
        "actor_hash",
        "http.request.method",
        "http.route",
        "http.response.status_code",
        "duration_ms",
        "wait_ms",
        "store_ms",
    ];
    expected.sort_unstable();
    assert_eq!(members, expected, "{told}");
    for (member, value) in [
        ("operation", Value::from("orders.pay")),
        ("trace_id", TRACE.into()),
        ("decision", "claimed".into()),
        ("state", "completed".into()),
        ("attempt", 1.into()),
        ("http.request.method", "POST".into()),
        ("http.route", "/orders/{id}/pay".into()),
        ("http.response.status_code", 201.into()),
        ("wait_ms", 0.0.into()),
    ] {
        assert_eq!(told[member], value, "{member}: {told}");
    }
    let (all, store) = (told["duration_ms"].as_f64(), told["store_ms"].as_f64());
    assert!(store > Some(0.0) && store < all, "the store's part of the time: {told}");
    samekey.send(&Request::post("/orders/7/pay").key("k-1").json("{}").header("X-Request-Id", "again")).await;
    let again = event(&samekey, "request", "again").await;
    assert_eq!((&again["decision"], &again["record"]), (&"replayed".into(), &told["record"]));
    assert_eq!((&again["key_hash"], &again["actor_hash"]), (&told["key_hash"], &told["actor_hash"]));
    assert!(again.get("trace_id").is_none(), "no trace was named: {again}");
    samekey.send(&Request::post("/orders/7/pay").key("k-1").json("[]").header("X-Request-Id", "other")).await;
    let other = event(&samekey, "request", "other").await;
    assert_eq!((&other["decision"], &other["code"]), (&"refused".into(), &"key_payload_mismatch".into()));
}

#[tokio::test]
async fn an_uncertain_outcome_says_where_to_look() {
    let upstream = Upstream::start().await;
    let samekey = server(&upstream).await;
    upstream.next(Reply::reset());
    samekey.send(&pay("k-1").header("traceparent", PARENT)).await;
    let told = event(&samekey, "uncertain", "r-k-1").await;
    for (member, value) in [
        ("level", Value::from("warn")),
        ("operation", "orders.pay".into()),
        ("trace_id", TRACE.into()),
        ("attempt", 1.into()),
        ("reason", "no_answer".into()),
        ("age_s", 0.into()),
        ("help", format!("samekey records show {}", told["record"]).into()),
    ] {
        assert_eq!(told[member], value, "{member}: {told}");
    }
    assert_eq!(told["key_hash"].as_str().map(str::len), Some(8), "{told}");
}

#[tokio::test]
async fn the_trace_goes_on_as_it_came() {
    let upstream = Upstream::start().await;
    let samekey = server(&upstream).await;
    let state = "vendor=00f067aa0ba902b7";
    let traced = |request: Request| request.header("traceparent", PARENT).header("tracestate", state);
    for (number, request) in
        [pay("k-1"), Request::post("/other").key("k-2").json("{}"), Request::new("GET", "/x")].into_iter().enumerate()
    {
        samekey.send(&traced(request)).await;
        let received = upstream.ledger().arrived(number + 1).await;
        assert_eq!(received.headers.all("traceparent"), [PARENT], "nothing here records a span of its own");
        assert_eq!(received.headers.all("tracestate"), [state]);
    }
    samekey.send(&pay("k-3").header("traceparent", "00-nonsense")).await;
    assert_eq!(upstream.ledger().last().headers.all("traceparent"), ["00-nonsense"], "it is not ours to mend");
    assert!(event(&samekey, "request", "r-k-3").await.get("trace_id").is_none());
    samekey.send(&pay("k-4")).await;
    assert!(upstream.ledger().last().headers.all("traceparent").is_empty(), "none is made up");
}

#[tokio::test]
async fn spans_are_there_for_whoever_asks_for_them() {
    let upstream = Upstream::start().await;
    // A span shows in the text log before its events; a store error within a claim would show all three.
    let samekey = Serve::before(&upstream).config(OPERATION).set("--log-level", "samekey=debug").start().await;
    upstream.next(Reply::reset());
    samekey.send(&pay("k-1")).await;
    let line = samekey.logs.line_with("event=\"uncertain\"").await.expect("an event");
    assert!(line.contains("samekey.request{samekey.operation=\"orders.pay\"}"), "{line}");
    let line = samekey.logs.line_with("event=\"request\"").await.expect("an event");
    assert!(!line.contains("k-1\"") || !line.contains("Idempotency"), "{line}");
    let line = samekey.logs.line_with("event=\"upstream_error\"").await.expect("an event");
    assert!(line.contains("samekey.upstream{samekey.operation=\"orders.pay\" samekey.attempt=1}"), "{line}");
}
