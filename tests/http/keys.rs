//! What counts as a key, and keys older than memory.

use std::time::Duration;
use support::{Request, Serve, Upstream, keys};

#[tokio::test]
async fn a_malformed_key_is_refused_in_every_way_it_can_be_malformed() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let long = "k".repeat(256);
    let wrong: Vec<Vec<u8>> = [
        "",
        "\"\"",
        "a, b",
        "\"a\", \"b\"",
        "\"a\",\"b\"",
        "\"a\";x=1",
        "a;x=1",
        "\"a",
        "a b",
        "\"a b\"",
        "\"a\\n\"",
        "\"a\" b",
        "\"a\"\"b\"",
        "\"a\\",
        "a\tb",
        "\"a\tb\"",
    ]
    .iter()
    .map(|key| key.as_bytes().to_vec())
    .chain([
        long.clone().into_bytes(),
        format!("\"{long}\"").into_bytes(),
        "schl\u{fc}ssel".as_bytes().to_vec(),
        b"\"k\xfcy\"".to_vec(),
        b"\xff".to_vec(),
    ])
    .collect();
    for key in &wrong {
        let answer = samekey.send(&Request::order("x").header("X-Case", "1")).await;
        assert_eq!(answer.status, 201, "the server is well");
        let answer = samekey.send(&Request::post("/orders").key(key).json("{}")).await;
        let shown = String::from_utf8_lossy(key);
        assert_eq!(answer.status, 400, "{shown:?}: {answer:?}");
        let problem = answer.refuses(400, "idempotency_key_invalid", "fix_request", "refused");
        assert!(!problem.detail.is_empty(), "{shown:?}: the detail names the defect");
    }
    assert_eq!(upstream.ledger().count(), 1, "only the well-formed key reached the handler");
}

#[tokio::test]
async fn two_key_lines_are_no_key_even_if_they_agree() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for second in ["k-1", "k-2", ""] {
        let answer = samekey.send(&Request::order("k-1").key(second)).await;
        answer.refuses(400, "idempotency_key_invalid", "fix_request", "refused");
    }
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn control_characters_in_a_key_reach_nobody() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for control in [b"a\x01b".as_slice(), b"a\x7fb", b"a\x00b", b"\"a\rb\""] {
        let answer = samekey.send(&Request::post("/orders").key(control).json("{}")).await;
        assert_eq!(answer.status, 400, "{control:?}");
    }
    assert_eq!(upstream.ledger().count(), 0);
    samekey.send(&Request::order("k-1")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn both_spellings_are_the_same_key() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let pairs = [
        ("k-1".to_owned(), "\"k-1\"".to_owned()),
        ("a\\b".into(), "\"a\\\\b\"".into()),
        ("~!#$%&'*+-.^_`|:/=?@".into(), "\"~!#$%&'*+-.^_`|:/=?@\"".into()),
        ("k".repeat(255), format!("\"{}\"", "k".repeat(255))),
    ];
    for (n, (bare, quoted)) in pairs.iter().enumerate() {
        let first = samekey.send(&Request::order(quoted)).await;
        first.ran(201, "completed", 1);
        samekey.send(&Request::order(bare)).await.replays(&first);
        samekey.send(&Request::order(&format!("  {bare} "))).await.replays(&first);
        assert_eq!(upstream.ledger().count(), n + 1);
    }
    samekey.send(&Request::order("K-1")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn the_upstream_gets_the_key() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for key in ["bare-key", "\"quoted-key\""] {
        samekey.send(&Request::order(key)).await.ran(201, "completed", 1);
        let received = upstream.ledger().last();
        assert_eq!(received.key().as_deref(), Some(key.trim_matches('"')));
        assert_eq!(received.headers.all("samekey-attempt"), ["1"]);
        assert_eq!(received.headers.all("x-request-id").len(), 1, "one request id per delivery");
    }
}

#[tokio::test]
async fn a_missing_key_is_refused_where_one_is_required() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--key", "required").start().await;
    let answer = samekey.send(&Request::post("/orders").json("{}")).await;
    answer.refuses(400, "idempotency_key_required", "fix_request", "refused");
    samekey.send(&Request::new("PATCH", "/orders/1").json("{}")).await.refuses(
        400,
        "idempotency_key_required",
        "fix_request",
        "refused",
    );
    assert_eq!(upstream.ledger().count(), 0);
    samekey.send(&Request::order("k-1")).await.ran(201, "completed", 1);
    assert_eq!(samekey.send(&Request::new("GET", "/orders")).await.status, 201, "a GET needs no key");
}

#[tokio::test]
async fn a_key_older_than_memory_is_refused_and_never_runs() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let old = keys::v7_aged(Duration::from_secs(31 * 86_400));
    for spelling in [old.clone(), format!("\"{old}\""), old.to_uppercase()] {
        let answer = samekey.send(&Request::order(&spelling)).await;
        let problem = answer.refuses(410, "key_expired", "ask", "expired");
        for member in ["server_time", "key_time"] {
            assert!(!problem.json[member].is_null(), "{member} in {}", problem.json);
        }
    }
    assert_eq!(upstream.ledger().count(), 0);
    let younger = keys::v7_aged(Duration::from_secs(29 * 86_400));
    samekey.send(&Request::order(&younger)).await.ran(201, "completed", 1);
    samekey.send(&Request::order(&keys::v4())).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn a_key_in_the_future_runs_like_one_without_a_time() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let future = "ffffffff-ffff-7fff-bfff-ffffffffffff";
    let first = samekey.send(&Request::order(future)).await;
    first.ran(201, "completed", 1);
    samekey.send(&Request::order(future)).await.replays(&first);
}

#[tokio::test]
async fn once_forgotten_a_key_with_a_time_is_refused_instead_of_run_again() {
    let upstream = Upstream::start().await;
    let times = [("--retry-budget", "100ms"), ("--timeout", "500ms"), ("--probe-after", "600ms"), ("--lease", "500ms")];
    let serve = times.iter().fold(Serve::before(&upstream), |serve, (flag, time)| serve.set(flag, time));
    let samekey = serve.waits("100ms", "100ms").set("--retention", "2s").set("--remember", "3s").start().await;
    let key = keys::v7();
    let first = samekey.send(&Request::order(&key)).await;
    first.ran(201, "completed", 1);
    samekey.send(&Request::order(&key)).await.replays(&first);
    let done = samekey.until(&Request::order(&key), |answer| answer.status != 201).await;
    let problem = done.refuses(409, "response_not_stored", "done", "completed");
    assert_eq!(problem.json["status_code"], 201);
    assert_eq!(upstream.effects(&key), 1);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    for _ in 0..10 {
        let answer = samekey.send(&Request::order(&key)).await;
        let code = answer.problem().code;
        assert!(code == "response_not_stored" || code == "key_expired", "{code}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(upstream.effects(&key), 1, "forgotten or not, it ran once");
}
