//! What the network and the upstream can do to one request.

use std::time::Duration;
use support::{Reply, Request, Serve, Upstream};

#[tokio::test]
async fn an_unreachable_upstream_is_told_and_the_retry_runs() {
    let upstream = Upstream::unreachable();
    let samekey = Serve::before(&upstream).start().await;
    for attempt in 1..=3 {
        let answer = samekey.send(&Request::order("k")).await;
        answer.refuses(502, "upstream_unreachable", "retry_same_key", "released");
        assert_eq!(answer.receipt().attempt, Some(attempt));
    }
    let other = Request::post("/orders").key("k").json("{}");
    samekey.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    upstream.accept();
    let ran = samekey.send(&Request::order("k")).await;
    ran.ran(201, "completed", 4);
    samekey.send(&Request::order("k")).await.replays(&ran);
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn an_unreachable_upstream_fails_uncovered_requests_plainly() {
    let upstream = Upstream::unreachable();
    let samekey = Serve::before(&upstream).start().await;
    let answer = samekey.send(&Request::new("GET", "/orders")).await;
    assert_eq!((answer.status, answer.header("samekey-state")), (502, None));
    upstream.accept();
    assert_eq!(samekey.send(&Request::new("GET", "/orders")).await.status, 201);
}

#[tokio::test]
async fn an_upstream_that_went_away_between_two_requests_is_unreachable() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::json(201, "{}").then_close());
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::order("a")).await.ran(201, "completed", 1);
    upstream.refuse().await;
    upstream.ledger().parted_from(1).await;
    samekey.send(&Request::order("b")).await.refuses(502, "upstream_unreachable", "retry_same_key", "released");
    upstream.accept();
    samekey.send(&Request::order("b")).await.ran(201, "completed", 2);
}

#[tokio::test]
async fn a_lost_or_broken_answer_is_uncertain_and_never_rerun() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let json = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n";
    let many: String = (0..2000).map(|n| format!("X-{n}: {}\r\n", "v".repeat(500))).collect();
    let broken: Vec<(&str, Reply)> = vec![
        ("reset", Reply::reset()),
        ("hang-up", Reply::hang_up()),
        ("reset-in-head", Reply::raw("HTTP/1.1 201 Cre").then_reset()),
        ("cut-in-head", Reply::raw(json).then_close()),
        ("garbage", Reply::raw("ICY 200 OK\r\n\r\n").then_close()),
        ("short-body", Reply::json(201, "{}").truncated()),
        ("short-body-reset", Reply::json(201, "{}").truncated().then_reset()),
        ("no-last-chunk", Reply::chunked(201, "text/plain", &[b"abc"]).truncated()),
        ("bad-chunk", Reply::raw(format!("{json}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n")).then_close()),
        ("open-end-reset", Reply::raw(format!("{json}\r\npart of a bo")).then_reset()),
        ("two-lengths", Reply::raw(format!("{json}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}")).then_close()),
        ("no-colon", Reply::raw("HTTP/1.1 200 OK\r\nbroken\r\n\r\n").then_close()),
        ("too-many-headers", Reply::raw(format!("HTTP/1.1 200 OK\r\n{many}\r\n")).then_close()),
        ("tunnel", Reply::raw("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: tea\r\n\r\n").then_close()),
    ];
    for (key, reply) in broken {
        upstream.next(reply);
        for _ in 0..2 {
            let answer = samekey.send(&Request::order(key)).await;
            assert_eq!(answer.status, 409, "{key}: {answer:?}");
            answer.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        }
        assert_eq!(upstream.effects(key), 1, "{key}");
    }
}

#[tokio::test]
async fn a_connection_closed_on_arrival_is_either_provably_unsent_or_uncertain() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for (key, reset) in [("closed", false), ("reset", true)] {
        upstream.close_accepted(reset);
        let answer = samekey.send(&Request::order(key)).await;
        upstream.behave();
        if answer.status == 502 {
            answer.refuses(502, "upstream_unreachable", "retry_same_key", "released");
            samekey.send(&Request::order(key)).await.ran(201, "completed", 2);
        } else {
            answer.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
            samekey.send(&Request::order(key)).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
            assert_eq!(upstream.effects(key), 0, "one delivery was lost, none is sent after it");
        }
    }
}

#[tokio::test]
async fn a_close_between_two_requests_makes_nothing_uncertain() {
    let upstream = Upstream::start().await;
    upstream.script(|_| Reply::json(201, "{}").then_close());
    let samekey = Serve::before(&upstream).start().await;
    for n in 1..=20 {
        samekey.send(&Request::order(&format!("k-{n}"))).await.ran(201, "completed", 1);
        upstream.ledger().parted_from(n).await;
    }
    assert_eq!(upstream.ledger().count(), 20);
}

#[tokio::test]
async fn a_covered_request_never_goes_out_on_a_connection_idle_for_long() {
    let upstream = Upstream::start().await;
    upstream.reset_after_idle(Duration::from_millis(600));
    let samekey = Serve::before(&upstream).set("--upstream-idle", "300ms").start().await;
    for n in 1..=4 {
        samekey.send(&Request::order(&format!("k-{n}"))).await.ran(201, "completed", 1);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    assert_eq!(upstream.ledger().connections(), 4);
}

#[tokio::test]
async fn a_busy_connection_is_reused() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for n in 1..=10 {
        samekey.send(&Request::order(&format!("k-{n}"))).await.ran(201, "completed", 1);
    }
    assert!(upstream.ledger().connections() <= 2, "{} connections", upstream.ledger().connections());
}

#[tokio::test]
async fn a_reset_on_a_kept_alive_connection_is_never_resent() {
    let upstream = Upstream::start().await;
    upstream.reset_reused();
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::order("a")).await.ran(201, "completed", 1);
    // Written to a connection that then was reset unread: it may have been read, so it may not be sent again.
    let answer = samekey.send(&Request::order("b")).await;
    upstream.behave();
    if answer.status == 201 {
        answer.ran(201, "completed", 1);
        assert_eq!(upstream.effects("b"), 1);
    } else {
        answer.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        samekey.send(&Request::order("b")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        assert_eq!(upstream.effects("b"), 0);
    }
}

#[tokio::test]
async fn a_large_request_arrives_whole() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--max-body", "64MiB").start().await;
    let big = vec![b'x'; 20_000_000];
    let request = Request::post("/files").key("k").body("application/octet-stream", &big);
    let first = samekey.send(&request).await;
    first.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().last().body.len(), big.len());
    samekey.send(&request).await.replays(&first);
}
