//! `samekey.toml`: what each key does, and who wins.

use std::time::Duration;
use support::{Reply, Request, Serve, Server, Upstream, keys};

/// A server with one operation `orders.create` for POST /orders and these keys.
async fn with(upstream: &Upstream, keys: &str) -> Server {
    let text = format!("[[operation]]\nname = \"orders.create\"\nmethod = \"POST\"\npath = \"/orders\"\n{keys}\n");
    Serve::before(upstream).config(&text).start().await
}

fn put(target: &str, key: &str, body: &str) -> Request {
    Request::new("PUT", target).key(key).json(body)
}

#[tokio::test]
async fn an_operation_may_have_any_method_that_changes_something() {
    let upstream = Upstream::start().await;
    let text = "[[operation]]\nname = \"one\"\nmethod = \"PUT\"\npath = \"/things/{id}\"\n\
                [[operation]]\nname = \"drop\"\nmethod = \"DELETE\"\npath = \"/things/{id}\"\nkey = \"required\"\n";
    let samekey = Serve::before(&upstream).config(text).start().await;
    let first = samekey.send(&put("/things/7", "k", "{}")).await;
    first.ran(201, "completed", 1);
    samekey.send(&put("/things/7", "k", "{}")).await.replays(&first);
    samekey.send(&put("/things/8", "k", "{}")).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    samekey.send(&put("/things/%37", "k", "{}")).await.replays(&first);
    assert_eq!(samekey.send(&put("/things/7/", "k", "{}")).await.receipt().state, "not_covered", "another path");
    let no_key = Request::new("DELETE", "/things/7");
    let refused = samekey.send(&no_key).await.refuses(400, "idempotency_key_required", "fix_request", "refused");
    assert!(refused.detail.contains("drop"), "{}", refused.detail);
    assert_eq!(upstream.effects("k"), 2, "one run, and one that passed");
}

#[tokio::test]
async fn the_key_rule_of_an_operation_is_its_own() {
    let upstream = Upstream::start().await;
    let text = "[defaults]\nkey = \"ignore\"\n[[operation]]\nname = \"a\"\nmethod = \"POST\"\npath = \"/orders\"\nkey = \"required\"\n";
    let samekey = Serve::before(&upstream).config(text).start().await;
    samekey.send(&Request::post("/orders")).await.refuses(400, "idempotency_key_required", "fix_request", "refused");
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    let ignored = samekey.send(&Request::post("/other").key("k")).await;
    assert_eq!(ignored.receipt().state, "not_covered");
    let samekey = with(&upstream, "key = \"ignore\"").await;
    assert_eq!(samekey.send(&Request::order("k")).await.receipt().state, "not_covered");
    let samekey = with(&upstream, "key = \"optional\"").await;
    assert!(samekey.send(&Request::post("/orders")).await.header("samekey-state").is_none());
}

#[tokio::test]
async fn significant_fields_decide_what_is_another_payload() {
    let upstream = Upstream::start().await;
    let order = |target: &str, body: &str| Request::post(target).key("k").json(body);
    let same = "key_payload_mismatch";
    for (keys, first, again, other) in [
        (
            "significant.exclude = [\"/ui\", \"/items/*/note\"]",
            order("/orders", r#"{"sku":1,"ui":1,"items":[{"note":"a"}]}"#),
            order("/orders", r#"{"sku":1,"items":[{"note":"b"}]}"#),
            order("/orders", r#"{"sku":2,"items":[{"note":"b"}]}"#),
        ),
        (
            "significant.include = [\"/sku\"]",
            order("/orders", r#"{"sku":1,"ui":1}"#),
            order("/orders", r#"{"sku":1,"ui":2}"#),
            order("/orders", r#"{"sku":2,"ui":1}"#),
        ),
        (
            "significant.headers = [\"X-Tenant\"]",
            order("/orders", "{}").header("X-Tenant", "a").header("X-Other", "1"),
            order("/orders", "{}").header("X-Tenant", "a"),
            order("/orders", "{}").header("X-Tenant", "b"),
        ),
        (
            "significant.query = [\"dry\"]",
            order("/orders?dry=1&t=1", "{}"),
            order("/orders?t=2&dry=1", "{}"),
            order("/orders?dry=2", "{}"),
        ),
    ] {
        let samekey = with(&upstream, keys).await;
        let first = samekey.send(&first).await;
        first.ran(201, "completed", 1);
        samekey.send(&again).await.replays(&first);
        samekey.send(&other).await.refuses(409, same, "new_intent", "refused");
    }
}

#[tokio::test]
async fn statuses_mean_what_the_operation_says() {
    let upstream = Upstream::start().await;
    for (keys, status, state) in [
        ("terminal = [503]", 503, "failed"),
        ("release = [404]", 404, "released"),
        ("uncertain = [400]", 400, "uncertain"),
        ("transactional = true", 500, "released"),
        ("transactional = false", 500, "failed"),
    ] {
        let samekey = with(&upstream, keys).await;
        upstream.next(Reply::json(status, "{}"));
        let answer = samekey.send(&Request::order("k")).await;
        assert_eq!(answer.receipt().state, state, "{keys}");
    }
}

#[tokio::test]
async fn what_is_kept_of_an_answer() {
    let upstream = Upstream::start().await;
    let answer = || Reply::json(201, r#"{"id":"o-7"}"#).header("X-Total", "3").header("X-Other", "4");
    let samekey = with(&upstream, "store_headers = [\"X-Total\"]").await;
    upstream.next(answer());
    samekey.send(&Request::order("headers")).await.ran(201, "completed", 1);
    let again = samekey.send(&Request::order("headers")).await;
    assert_eq!((again.header("x-total").as_deref(), again.header("x-other")), (Some("3"), None));
    let samekey = with(&upstream, "keep = \"status\"\nresult_id = \"/id\"").await;
    upstream.next(answer());
    samekey.send(&Request::order("status")).await.ran(201, "completed", 1);
    let again = samekey.send(&Request::order("status")).await;
    let problem = again.refuses(409, "response_not_stored", "done", "completed");
    assert_eq!(problem.json["result_id"], "o-7");
    let samekey = with(&upstream, "max_response = \"4B\"").await;
    upstream.next(answer());
    samekey.send(&Request::order("large")).await;
    samekey.send(&Request::order("large")).await.refuses(409, "response_not_stored", "done", "completed");
}

#[tokio::test]
async fn limits_and_times_of_one_operation() {
    let upstream = Upstream::start().await;
    let keys = "max_body = \"4B\"";
    let samekey = with(&upstream, keys).await;
    samekey.send(&Request::order("k")).await.refuses(413, "payload_too_large", "fix_request", "refused");
    samekey.send(&Request::post("/others").key("k").json("{\"a\":12345}")).await.ran(201, "completed", 1);
    let samekey = with(&upstream, "timeout = \"1s\"\nquota = 1\ndefault_wait = \"100ms\"\nmax_wait = \"1s\"").await;
    upstream.next(Reply::silence());
    let slow = samekey.spawn(&Request::order("slow"));
    upstream.ledger().arrived(2).await;
    samekey.send(&Request::order("more")).await.refuses(429, "quota_exceeded", "retry_same_key", "none");
    samekey.send(&Request::order("slow")).await.refuses(409, "operation_in_progress", "wait", "in_progress");
    slow.await.expect("an answer").refuses(504, "upstream_timeout", "follow_status", "uncertain");
}

#[tokio::test]
async fn an_outcome_that_may_be_repeated_runs_again() {
    let upstream = Upstream::start().await;
    let samekey = with(&upstream, "recovery = \"rerun\"\nprobe_after = \"500ms\"").await;
    upstream.next(Reply::reset());
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let again = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert_eq!((again.receipt().attempt, upstream.effects("k")), (Some(2), 2));
}

#[tokio::test]
async fn a_key_has_a_time_or_none() {
    let upstream = Upstream::start().await;
    let old = keys::v7_aged(Duration::from_secs(40 * 86_400));
    let samekey = with(&upstream, "key_time = \"carried\"").await;
    samekey.send(&Request::order(&old)).await.refuses(410, "key_expired", "ask", "expired");
    let samekey = with(&upstream, "remember = \"50d\"").await;
    samekey.send(&Request::order(&old)).await.ran(201, "completed", 1);
    let samekey = with(&upstream, "key_time = \"none\"").await;
    samekey.send(&Request::order(&old)).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn an_anonymous_operation_takes_the_key_for_the_secret() {
    let upstream = Upstream::start().await;
    let samekey = with(&upstream, "anonymous = true").await;
    let key = keys::v4();
    let first = samekey.send(&Request::order(&key).anonymous()).await;
    first.ran(201, "completed", 1);
    samekey.send(&Request::order(&key).anonymous()).await.replays(&first);
    let guessable = samekey.send(&Request::order("k").anonymous()).await;
    guessable.refuses(400, "idempotency_key_invalid", "fix_request", "refused");
    let other = samekey.send(&Request::post("/other").key(&key).anonymous()).await;
    other.refuses(401, "actor_required", "sign_in", "none");
}

#[tokio::test]
async fn the_key_may_come_in_another_header() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream)
        .config("key_header = \"X-Command-Id\"\n[defaults]\nkey = \"required\"\n")
        .start()
        .await;
    let order = || Request::post("/orders").json("{}");
    let first = samekey.send(&order().header("X-Command-Id", "k")).await;
    first.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().all().len(), 1);
    samekey.send(&order().header("X-Command-Id", "k")).await.replays(&first);
    let problem =
        samekey.send(&order().key("k")).await.refuses(400, "idempotency_key_required", "fix_request", "refused");
    assert!(problem.detail.contains("x-command-id"), "{}", problem.detail);
}

#[tokio::test]
async fn the_ietf_profile_and_the_limits_of_the_server() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).config("profile = \"ietf\"\nclock_skew = \"1m\"\n").start().await;
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    let other = samekey.send(&Request::post("/orders").key("k").json("{}")).await;
    other.refuses(422, "key_payload_mismatch", "new_intent", "refused");
    for text in ["max_buffered = \"4B\"", "min_free = \"1000000GiB\""] {
        let samekey = Serve::before(&upstream).config(text).start().await;
        samekey.send(&Request::order("m")).await.refuses(503, "overloaded", "retry_same_key", "unknown");
    }
    let text = "max_waiters = 0\nwaiters_per_key = 4\nqueue = 64\n[defaults]\ntimeout = \"1s\"\n";
    let samekey = Serve::before(&upstream).config(text).start().await;
    upstream.next(Reply::silence());
    let slow = samekey.spawn(&Request::order("w"));
    upstream.ledger().arrived(2).await;
    let started = std::time::Instant::now();
    samekey.send(&Request::order("w")).await.refuses(409, "operation_in_progress", "wait", "in_progress");
    assert!(started.elapsed() < Duration::from_secs(1), "no seat to wait in");
    slow.await.expect("an answer");
}

#[tokio::test]
async fn all_of_the_server_may_stand_in_the_file() {
    let upstream = Upstream::start().await;
    let text = format!(
        "upstream = \"{}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"sqlite:other.db\"\nsingle_host = true\n\
         upstream_idle = \"1s\"\nconnect_timeout = \"1s\"\ndrain = \"5s\"\nlog = \"json\"\nlog_level = \"info\"\n\
         [actor]\nfrom = \"header:X-User\"\ntrusted_proxies = [\"127.0.0.0/8\", \"::1\"]\n[defaults]\ntimeout = \"4s\"\n",
        upstream.url()
    );
    let serve = Serve::before(&upstream).bare().config(&text).env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let samekey = serve.start().await;
    let order = Request::order("k").anonymous();
    samekey.send(&order).await.refuses(401, "actor_required", "sign_in", "none");
    samekey.send(&order.header("X-User", "ann")).await.ran(201, "completed", 1);
    assert!(serve.folder().join("other.db").is_file());
    let line = samekey.logs.line_with("\"event\":\"request\"").await.expect("a log line");
    assert!(line.starts_with('{'), "{line}");
    let untrusted = text.replace("127.0.0.0/8", "10.0.0.0/8");
    let samekey =
        Serve::before(&upstream).bare().config(&untrusted).env("KUBERNETES_SERVICE_HOST", "10.0.0.1").start().await;
    let order = Request::order("k").anonymous().header("X-User", "ann");
    samekey.send(&order).await.refuses(401, "actor_required", "sign_in", "none");
    let (_, said) = Serve::before(&upstream)
        .config(&text.replace("single_host = true\n", ""))
        .env("KUBERNETES_SERVICE_HOST", "1")
        .refused()
        .await;
    assert!(said.contains("single-host"), "{said}");
}

#[tokio::test]
async fn flags_win_over_the_environment_and_that_over_the_file() {
    let upstream = Upstream::start().await;
    let text = "[defaults]\ntimeout = \"11s\"\nlease = \"11s\"\nhold = \"11s\"\n\
                [[operation]]\nname = \"own\"\nmethod = \"POST\"\npath = \"/own\"\ntimeout = \"14s\"\nterminal = []\n";
    let serve = Serve::before(&upstream).config(text).env("SAMEKEY_LEASE", "12s").env("SAMEKEY_HOLD", "12s");
    let serve = serve.env("SAMEKEY_TERMINAL", "404,405").set("--hold", "13s").set("--max-wait", "13s");
    let output = serve.check(&["--json"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (key, value) in
        [("timeout", "11s"), ("lease", "12s"), ("hold", "13s"), ("max_wait", "13s"), ("default_wait", "5s")]
    {
        assert_eq!(said["others"][key], value, "{key}");
    }
    assert_eq!(said["others"]["probe_after"], "41s", "follows the timeout");
    assert_eq!(said["others"]["terminal"], serde_json::json!([404, 405]));
    let own = &said["operations"][0];
    for (key, value) in [("timeout", "14s"), ("lease", "12s"), ("hold", "13s"), ("probe_after", "44s")] {
        assert_eq!(own[key], value, "{key}");
    }
    assert_eq!(own["terminal"], serde_json::json!([]));
    let elsewhere = serve.folder().join("elsewhere.toml");
    std::fs::write(&elsewhere, "[defaults]\ntimeout = \"21s\"\n").expect("a file");
    let serve = Serve::before(&upstream).env("SAMEKEY_CONFIG", elsewhere.to_str().expect("a path"));
    let said: serde_json::Value = serde_json::from_slice(&serve.check(&["--json"]).stdout).expect("JSON");
    assert_eq!(said["others"]["timeout"], "21s");
}
