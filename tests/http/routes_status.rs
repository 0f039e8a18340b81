//! The status of a key, for the caller whose key it is.

use std::time::Duration;

use support::patience::within;
use support::{Answer, Gate, Reply, Request, Serve, Upstream, keys};

const STATUS: &str = "/.well-known/samekey/status?operation=POST%20%2Forders";

fn status(key: &str) -> Request {
    Request::new("GET", STATUS).key(key)
}

/// What every answer about a key says of itself.
#[track_caller]
fn tells(answer: &Answer, code: u16, state: &str, receipt: &str, next: &str) -> serde_json::Value {
    assert_eq!(answer.status, code, "{}", answer.text());
    assert_eq!(answer.receipt().state, receipt, "{}", answer.text());
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    assert!(answer.header("vary").is_some_and(|vary| vary.contains("Idempotency-Key")));
    assert!(answer.header("x-request-id").is_some());
    let json = answer.json();
    assert_eq!((&json["state"], &json["next"]), (&state.into(), &next.into()), "{json}");
    assert!(json["key_hash"].as_str().is_some_and(|hash| hash.len() == 8), "{json}");
    assert!(json["server_time"].as_i64().is_some_and(|time| time > 1_700_000_000_000), "{json}");
    json
}

/// Such a request may have run without leaving anything behind.
#[tokio::test]
async fn of_what_is_not_covered_nobody_says_that_it_is_not_here_yet() {
    let upstream = Upstream::start().await;
    let ignores = "[[operation]]\nname = \"forms.send\"\nmethod = \"POST\"\npath = \"/forms\"\nkey = \"ignore\"\n";
    let samekey = Serve::before(&upstream).config(ignores).start().await;
    for operation in ["forms.send", "POST%20%2Fforms", "PUT%20%2Forders", "GET%20%2Forders"] {
        for method in ["GET", "DELETE"] {
            let target = format!("/.well-known/samekey/status?operation={operation}");
            let answer = samekey.send(&Request::new(method, &target).key("k-1")).await;
            tells(&answer, 404, "not_covered", "not_covered", "ask");
        }
    }
    samekey.send(&Request::new("POST", "/forms").key("k-1").json("{}")).await;
    assert_eq!(upstream.effects("k-1"), 1, "nothing was closed");
}

#[tokio::test]
async fn each_state_is_told_with_its_next_step() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    let samekey = Serve::before(&upstream).quick().set("--timeout", "20s").set("--probe-after", "25s").start().await;
    tells(&samekey.send(&status("unknown")).await, 404, "none", "none", "retry_same_key");

    samekey.send(&Request::order("done")).await.ran(201, "completed", 1);
    let json = tells(&samekey.send(&status("done")).await, 200, "completed", "completed", "retry_same_key");
    assert_eq!((&json["attempt"], &json["status_code"], &json["result_id"]), (&1.into(), &201.into(), &"o-1".into()));
    assert_eq!((&json["response_stored"], &json["operation"]), (&true.into(), &"POST /orders".into()));
    let (finished, expires) = (json["finished_at"].as_i64(), json["expires_at"].as_i64());
    assert_eq!(expires.zip(finished).map(|(e, f)| e - f), Some(7 * 86_400_000), "{json}");

    upstream.next(Reply::json(500, "{}"));
    samekey.send(&Request::order("failed")).await.ran(500, "failed", 1);
    let answer = samekey.send(&status("failed")).await;
    let json = tells(&answer, 200, "failed", "failed", "retry_same_key");
    assert_eq!((&json["effect"], answer.receipt().effect.as_deref()), (&"unknown".into(), Some("unknown")));

    upstream.next(Reply::json(429, "{}").header("Retry-After", "60"));
    samekey.send(&Request::order("released")).await.ran(429, "released", 1);
    let answer = samekey.send(&status("released")).await;
    let json = tells(&answer, 200, "released", "released", "retry_same_key");
    assert!(answer.retry_after().is_some_and(|after| (50..=60).contains(&after)), "{json}");
    assert_eq!(json["retry_after"].as_u64(), answer.retry_after());

    upstream.next(Reply::reset());
    samekey.send(&Request::order("lost")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let json = tells(&samekey.send(&status("lost")).await, 200, "uncertain", "uncertain", "follow_status");
    assert_eq!(json["reason"], "no_answer");

    upstream.next(Reply::json(201, "{}").gated(&gate));
    let running = samekey.spawn(&Request::order("running"));
    upstream.ledger().arrived(5).await;
    let answer = samekey.send(&status("running")).await;
    tells(&answer, 200, "in_progress", "in_progress", "wait");
    assert_eq!(answer.retry_after(), Some(1));
    gate.open();
    running.await.expect("an answer").ran(201, "completed", 1);
    assert_eq!(upstream.ledger().count(), 5, "asking runs nothing");
}

#[tokio::test]
async fn the_caller_is_known_before_anything_is_told() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let key = keys::v4();
    samekey.send(&Request::order(&key)).await.ran(201, "completed", 1);
    let nobody = samekey.send(&status(&key).anonymous()).await;
    nobody.refuses(401, "actor_required", "sign_in", "none");
    assert!(nobody.header("www-authenticate").is_some());
    let nobody = samekey.send(&Request::new("GET", "/.well-known/samekey/status?operation=nonsense").anonymous()).await;
    nobody.refuses(401, "actor_required", "sign_in", "none");
    // Another actor cannot tell a key of somebody else from none, not even one with a UUID.
    let bob = |key: &str| status(key).actor("Bearer bob");
    let (theirs, nobodys) = (samekey.send(&bob(&key)).await, samekey.send(&bob(&keys::v4())).await);
    for answer in [&theirs, &nobodys] {
        tells(answer, 404, "none", "none", "retry_same_key");
    }
    let members = |answer: &Answer| answer.json().as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&theirs), members(&nobodys));
    assert_eq!(samekey.send(&status(&key)).await.status, 200);
}

#[tokio::test]
async fn the_actor_tag_is_a_precondition_here_too() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--actor", "header:X-User").start().await;
    let as_user = |request: Request, user: &str| request.header("X-User", user);
    let first = samekey.send(&as_user(Request::order("k"), "ann")).await;
    let tag = first.header("samekey-actor").expect("a tag");
    let answer = samekey.send(&as_user(status("k"), "ann").header("Samekey-Actor", &tag)).await;
    assert_eq!((answer.status, answer.header("samekey-actor")), (200, Some(tag.clone())));
    let other = samekey.send(&as_user(status("k"), "bob").header("Samekey-Actor", &tag)).await;
    other.refuses(409, "actor_changed", "ask", "none");
}

#[tokio::test]
async fn a_malformed_question_hears_why_and_settles_nothing() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&status("a, b")).await.refuses(400, "idempotency_key_invalid", "fix_request", "refused");
    let without = Request::new("GET", STATUS);
    samekey.send(&without).await.refuses(400, "idempotency_key_required", "fix_request", "refused");
    for (target, code) in [
        ("/.well-known/samekey/status", 400),
        ("/.well-known/samekey/status?operation=", 400),
        ("/.well-known/samekey/status?operation=%ff", 400),
        ("/.well-known/samekey/status?operation=no.such", 404),
        ("/.well-known/samekey/nonsense", 404),
        ("/.well-known/samekey", 404),
        ("/.well-known/samekey/", 404),
        ("/.well-known/samekey/problems/nonsense", 404),
    ] {
        let answer = samekey.send(&Request::new("GET", target).key("k")).await;
        assert_eq!(answer.status, code, "{target}: {}", answer.text());
        // No code and no receipt: nobody may take it for a statement about the key.
        assert_eq!(answer.header("content-type").as_deref(), Some("application/problem+json"), "{target}");
        assert_eq!((answer.header("samekey-state"), &answer.json()["code"]), (None, &serde_json::Value::Null));
    }
    assert_eq!(samekey.send(&Request::post("/.well-known/samekey/status").key("k")).await.status, 405);
    assert_eq!(upstream.ledger().count(), 0, "nothing under the prefix reaches the service");
}

#[tokio::test]
async fn a_wait_ends_with_the_answer_or_with_patience() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let samekey = Serve::before(&upstream).waits("0s", "20s").start().await;
    let running = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    let soon = status("k").header("Prefer", "wait=1");
    let answer = within(Duration::from_secs(5), "patience", samekey.send(&soon)).await;
    tells(&answer, 200, "in_progress", "in_progress", "wait");
    let waiting = samekey.spawn(&status("k").header("Prefer", "wait=20"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    gate.open();
    running.await.expect("an answer").ran(201, "completed", 1);
    let answer = within(Duration::from_secs(5), "the change", waiting).await.expect("an answer");
    tells(&answer, 200, "completed", "completed", "retry_same_key");
    // Nothing to wait for.
    let other = status("other").header("Prefer", "wait=20");
    let answer = within(Duration::from_secs(5), "at once", samekey.send(&other)).await;
    tells(&answer, 404, "none", "none", "retry_same_key");
}

#[tokio::test]
async fn whoever_finds_no_seat_hears_at_once() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let samekey = Serve::before(&upstream).set("--waiters-per-key", "1").waits("0s", "20s").start().await;
    let running = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    let patient = status("k").header("Prefer", "wait=20");
    let waiting = samekey.spawn(&patient);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let answer = within(Duration::from_secs(5), "no seat", samekey.send(&patient)).await;
    tells(&answer, 200, "in_progress", "in_progress", "wait");
    gate.open();
    running.await.expect("an answer").ran(201, "completed", 1);
    tells(&waiting.await.expect("an answer"), 200, "completed", "completed", "retry_same_key");
}

#[tokio::test]
async fn an_uncertain_outcome_can_be_followed_to_its_late_answer() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"late"}"#).gated(&gate));
    let serve = Serve::before(&upstream).set("--timeout", "500ms").set("--lease", "1s").set("--probe-after", "20s");
    let samekey = serve.start().await;
    let lost = samekey.send(&Request::order("k")).await;
    lost.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    let link = lost.header("link").expect("a status link");
    let target = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"status\"")).expect("one reference");
    let follow = Request::new("GET", target).key("k").header("Prefer", "wait=20");
    let waiting = samekey.spawn(&follow);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    gate.open();
    let answer = within(Duration::from_secs(5), "the late answer", waiting).await.expect("an answer");
    tells(&answer, 200, "completed", "completed", "retry_same_key");
}

#[tokio::test]
async fn a_lapsed_claim_is_judged_before_it_is_told() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::silence());
    let samekey = Serve::before(&upstream).set("--lease", "1s").start().await;
    let lost = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    let samekey = samekey.kill().await.start().await;
    assert!(lost.await.is_err());
    tells(&samekey.send(&status("k")).await, 200, "in_progress", "in_progress", "wait");
    let answer = samekey.until(&status("k"), |answer| answer.json()["state"] != "in_progress").await;
    let json = tells(&answer, 200, "uncertain", "uncertain", "follow_status");
    assert_eq!(json["reason"], "lapse");
}

#[tokio::test]
async fn every_spelling_of_an_automatic_name_is_the_same() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::post("/a/b+c").key("k").json("{}")).await.ran(201, "completed", 1);
    for name in ["POST%20/a/b%2Bc", "POST+%2Fa%2Fb%2Bc", "POST%20/a/./x/../b%2Bc"] {
        let target = format!("/.well-known/samekey/status?x=1&operation={name}");
        assert_eq!(samekey.send(&Request::new("GET", &target).key("k")).await.status, 200, "{name}");
    }
    for target in ["/.well-known/./samekey/status", "/x/../.well-known/samekey/status", "/%2ewell-known/samekey/status"]
    {
        let target = format!("{target}?operation=POST%20/a/b%2Bc");
        assert_eq!(samekey.send(&Request::new("GET", &target).key("k")).await.status, 200, "{target}");
    }
    assert_eq!(upstream.ledger().count(), 1);
}

#[tokio::test]
async fn the_prefix_moves_everything_and_frees_the_old_place() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--public-prefix", "/api/samekey").start().await;
    upstream.next(Reply::reset());
    let lost = samekey.send(&Request::order("k")).await;
    assert_eq!(lost.json()["type"], "/api/samekey/problems/outcome_uncertain");
    assert_eq!(
        lost.header("link").as_deref(),
        Some("</api/samekey/status?operation=POST%20%2Forders>; rel=\"status\"")
    );
    let moved = Request::new("GET", "/api/samekey/status?operation=POST%20%2Forders").key("k");
    tells(&samekey.send(&moved).await, 200, "uncertain", "uncertain", "follow_status");
    assert_eq!(upstream.ledger().count(), 1);
    assert_eq!(samekey.send(&status("k")).await.status, 201, "the old place is the service's");
    assert_eq!(samekey.send(&Request::new("GET", "/api/samekeys")).await.status, 201);
    let (_, said) = Serve::before(&upstream).set("--public-prefix", "/api/").refused().await;
    assert!(said.contains("/api/samekey"), "{said}");
}

#[tokio::test]
async fn a_tombstone_says_how_it_ended() {
    let upstream = Upstream::start().await;
    let times = [("--retry-budget", "100ms"), ("--timeout", "500ms"), ("--probe-after", "600ms"), ("--lease", "500ms")];
    let serve = times.iter().fold(Serve::before(&upstream), |serve, (flag, time)| serve.set(flag, time));
    let samekey = serve.waits("100ms", "100ms").set("--retention", "2s").start().await;
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    let old = samekey.until(&status("k"), |answer| answer.json()["next"] == "done").await;
    let json = tells(&old, 200, "completed", "completed", "done");
    assert_eq!((&json["response_stored"], &json["status_code"]), (&false.into(), &201.into()));
    let tombstone = rusqlite::Connection::open(samekey.serve().store()).expect("the store");
    let made =
        "UPDATE idempotency_keys SET state = 'expired', ended = state, response_body = NULL, response_headers = NULL";
    tombstone.execute(made, []).expect("what the sweeper does");
    let json = tells(&samekey.send(&status("k")).await, 200, "completed", "completed", "done");
    assert_eq!((&json["attempt"], &json["result_id"]), (&1.into(), &"o-1".into()));
}
