//! What an answer of the handler means for the record, status by status.

use support::upstream::Received;
use support::{Reply, Request, Serve, Upstream};

/// The path says what the upstream answers: `/status/503?retry=1` with `Retry-After: 1`.
fn by_path(received: &Received) -> Reply {
    let target = received.target.strip_prefix("/status/").expect("a status path");
    let (status, query) = target.split_once('?').unwrap_or((target, ""));
    let status: u16 = status.parse().expect("a status");
    let reply = if status == 304 { Reply::empty(304) } else { Reply::json(status, r#"{"from":"upstream"}"#) };
    match query.strip_prefix("retry=") {
        Some(after) => reply.header("Retry-After", after.replace('_', " ")),
        None => reply,
    }
}

fn to(path: &str, key: &str) -> Request {
    Request::post(&format!("/status/{path}")).key(key).json("{}")
}

#[tokio::test]
async fn success_and_redirects_complete_the_record() {
    let upstream = Upstream::start().await;
    upstream.script(by_path);
    let samekey = Serve::before(&upstream).start().await;
    for status in [200, 201, 202, 203, 226, 299, 300, 301, 302, 303, 304, 307, 308] {
        let key = format!("k-{status}");
        let first = samekey.send(&to(&status.to_string(), &key)).await;
        first.ran(status, "completed", 1);
        samekey.send(&to(&status.to_string(), &key)).await.replays(&first);
        assert_eq!(upstream.effects(&key), 1);
    }
}

#[tokio::test]
async fn every_other_refusal_is_terminal_409_among_them() {
    let upstream = Upstream::start().await;
    upstream.script(by_path);
    let samekey = Serve::before(&upstream).start().await;
    for status in [400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 415, 418, 421, 422, 424, 426, 428, 431, 451, 498] {
        let key = format!("k-{status}");
        let first = samekey.send(&to(&status.to_string(), &key)).await;
        first.ran(status, "failed", 1);
        assert_ne!(first.receipt().effect.as_deref(), Some("unknown"), "a refusal did nothing");
        assert_eq!(first.text(), r#"{"from":"upstream"}"#, "the handler's own words");
        samekey.send(&to(&status.to_string(), &key)).await.replays(&first);
        assert_eq!(upstream.effects(&key), 1);
    }
}

#[tokio::test]
async fn a_server_error_is_stored_with_its_effect_unknown() {
    let upstream = Upstream::start().await;
    upstream.script(by_path);
    let samekey = Serve::before(&upstream).start().await;
    for status in [500, 501, 505, 506, 507, 508, 510, 511, 519, 528, 530, 561, 597] {
        let key = format!("k-{status}");
        let first = samekey.send(&to(&status.to_string(), &key)).await;
        first.ran(status, "failed", 1);
        assert_eq!(first.receipt().effect.as_deref(), Some("unknown"), "{status}");
        samekey.send(&to(&status.to_string(), &key)).await.replays(&first);
        assert_eq!(upstream.effects(&key), 1);
    }
}

#[tokio::test]
async fn answers_that_prove_nothing_are_uncertain_and_never_rerun() {
    let upstream = Upstream::start().await;
    upstream.script(by_path);
    let samekey = Serve::before(&upstream).start().await;
    for status in [408, 499, 502, 503, 504, 520, 521, 524, 527, 598, 599, 600, 700, 999] {
        let key = format!("k-{status}");
        for _ in 0..3 {
            let answer = samekey.send(&to(&status.to_string(), &key)).await;
            answer.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
            assert_eq!(answer.receipt().attempt, Some(1));
        }
        assert_eq!(upstream.effects(&key), 1, "{status} never runs again");
    }
    let answer = samekey.send(&to("502", "told")).await;
    assert!(answer.problem().detail.contains("502"), "the detail names the upstream's status: {}", answer.text());
}

#[tokio::test]
async fn who_must_sign_in_keeps_the_key() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for status in [401, 403, 407] {
        let key = format!("k-{status}");
        upstream.next(Reply::json(status, "{}").header("WWW-Authenticate", "Bearer realm=\"shop\""));
        let first = samekey.send(&Request::order(&key)).await;
        first.ran(status, "released", 1);
        assert_eq!(first.headers_all("www-authenticate"), ["Bearer realm=\"shop\""], "the handler's own challenge");
        let second = samekey.send(&Request::order(&key)).await;
        second.ran(201, "completed", 2);
        assert_eq!(upstream.ledger().last().headers.all("samekey-attempt"), ["2"]);
        samekey.send(&Request::order(&key)).await.replays(&second);
        assert_eq!(upstream.effects(&key), 2);
    }
}

#[tokio::test]
async fn come_back_later_is_honoured_and_then_it_runs() {
    let upstream = Upstream::start().await;
    upstream.script(by_path);
    let samekey = Serve::before(&upstream).start().await;
    for status in [423, 425, 429, 503] {
        let (path, key) = (format!("{status}?retry=2"), format!("k-{status}"));
        let first = samekey.send(&to(&path, &key)).await;
        first.ran(status, "released", 1);
        assert_eq!(first.header("retry-after").as_deref(), Some("2"), "the handler's own answer");
        let early = samekey.send(&to(&path, &key)).await;
        early.refuses(409, "operation_released", "retry_same_key", "released");
        assert!(early.retry_after().is_some_and(|seconds| (1..=2).contains(&seconds)), "{:?}", early.headers);
        assert_eq!(upstream.effects(&key), 1, "not before its time");
    }
    let (path, key) = ("503?retry=2", "k-503");
    let again = samekey.until(&to(path, key), |answer| answer.status == 503).await;
    again.ran(503, "released", 2);
    assert_eq!(upstream.effects(key), 2);
}

#[tokio::test]
async fn a_date_as_retry_after_counts_too() {
    let upstream = Upstream::start().await;
    upstream.script(by_path);
    let samekey = Serve::before(&upstream).start().await;
    let path = "503?retry=Thu,_31_Dec_2099_23:59:59_GMT";
    samekey.send(&to(path, "future")).await.ran(503, "released", 1);
    let early = samekey.send(&to(path, "future")).await;
    early.refuses(409, "operation_released", "retry_same_key", "released");
    assert!(early.retry_after().is_some_and(|seconds| seconds > 0));
    let path = "503?retry=Thu,_01_Jan_1998_00:00:00_GMT";
    samekey.send(&to(path, "past")).await.ran(503, "released", 1);
    samekey.send(&to(path, "past")).await.ran(503, "released", 2);
}

#[tokio::test]
async fn a_rate_limit_without_a_time_is_released_as_well() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for status in [423, 425, 429] {
        let key = format!("k-{status}");
        upstream.next(Reply::json(status, "{}"));
        samekey.send(&Request::order(&key)).await.ran(status, "released", 1);
        let ran = samekey.until(&Request::order(&key), |answer| answer.status == 201).await;
        ran.ran(201, "completed", 2);
    }
}

#[tokio::test]
async fn the_handler_can_say_what_its_answer_means() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let say = |status, outcome: &str| Reply::json(status, "{}").header("Samekey-Outcome", outcome);
    let stored =
        [(503, "failed"), (401, "failed"), (502, "failed"), (408, "failed"), (429, "failed"), (200, "completed")];
    for (status, state) in stored {
        let key = format!("terminal-{status}");
        upstream.next(say(status, "terminal"));
        let first = samekey.send(&Request::order(&key)).await;
        first.ran(status, state, 1);
        assert_eq!(first.header("samekey-outcome"), None, "stripped");
        samekey.send(&Request::order(&key)).await.replays(&first);
        assert_eq!(upstream.effects(&key), 1);
    }
    for status in [500, 409, 404, 502] {
        let key = format!("released-{status}");
        upstream.next(say(status, "released"));
        let first = samekey.send(&Request::order(&key)).await;
        first.ran(status, "released", 1);
        assert_eq!(first.header("samekey-outcome"), None, "stripped");
        samekey.send(&Request::order(&key)).await.ran(201, "completed", 2);
    }
    let uncertain = [(200, "uncertain"), (422, "uncertain"), (500, "uncertain"), (200, "released"), (201, "released")];
    for (status, outcome) in uncertain {
        let key = format!("{outcome}-{status}");
        upstream.next(say(status, outcome));
        for _ in 0..2 {
            let answer = samekey.send(&Request::order(&key)).await;
            answer.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        }
        assert_eq!(upstream.effects(&key), 1, "{outcome} on {status}");
    }
}

#[tokio::test]
async fn a_client_cannot_say_what_the_answer_means() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let request = Request::order("k-1").header("Samekey-Outcome", "released").header("Samekey-Attempt", "7");
    let first = samekey.send(&request).await;
    first.ran(201, "completed", 1);
    let received = upstream.ledger().last().headers;
    assert!(received.all("samekey-outcome").is_empty());
    assert_eq!(received.all("samekey-attempt"), ["1"]);
    samekey.send(&request).await.replays(&first);
}
