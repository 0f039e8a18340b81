//! No whole answer in time, and what a late one may still do.

use std::time::{Duration, Instant};
use support::patience::within;
use support::{Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn no_answer_in_time_is_a_timeout_and_then_uncertain() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::silence());
    let samekey = Serve::before(&upstream).quick().start().await;
    let begun = Instant::now();
    let answer = samekey.send(&Request::order("k")).await;
    let took = begun.elapsed();
    answer.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    assert_eq!(answer.receipt().attempt, Some(1));
    assert!(took >= Duration::from_millis(950) && took < Duration::from_millis(2900), "timeout is 1 s, took {took:?}");
    let again = samekey.send(&Request::order("k")).await;
    again.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn waiters_of_a_timeout_hear_that_it_is_uncertain() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::silence());
    let samekey = Serve::before(&upstream).quick().waits("5s", "25s").start().await;
    let first = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    let waiter = samekey.send(&Request::order("k")).await;
    waiter.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    first.await.expect("an answer").refuses(504, "upstream_timeout", "follow_status", "uncertain");
}

#[tokio::test]
async fn a_late_answer_settles_the_record_and_is_replayed() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"late"}"#).header("Location", "/orders/late").gated(&gate));
    let serve = Serve::before(&upstream).set("--timeout", "500ms").set("--lease", "1s").set("--probe-after", "20s");
    let samekey = serve.start().await;
    let answer = samekey.send(&Request::order("k")).await;
    answer.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    // Past the lease too: who listens for a late answer holds no lease any more.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    gate.open();
    let replay = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(replay.replayed());
    assert_eq!(
        (replay.json()["id"].as_str(), replay.header("location").as_deref()),
        (Some("late"), Some("/orders/late"))
    );
    assert_eq!((replay.receipt().state.as_str(), replay.receipt().attempt), ("completed", Some(1)));
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_late_refusal_settles_the_record_too() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(422, "{}").gated(&gate)).next(Reply::json(403, "{}").gated(&gate));
    let serve = Serve::before(&upstream).set("--timeout", "500ms").set("--lease", "1s").set("--probe-after", "20s");
    let samekey = serve.start().await;
    for key in ["refused", "sign-in"] {
        samekey.send(&Request::order(key)).await.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    }
    gate.open();
    let replay = samekey.until(&Request::order("refused"), |answer| answer.status == 422).await;
    assert!(replay.replayed());
    assert_eq!(replay.receipt().state, "failed");
    // Nothing happened under this one, and its holder says so: the same key may run again.
    let ran = samekey.until(&Request::order("sign-in"), |answer| answer.status == 201).await;
    ran.ran(201, "completed", 2);
}

#[tokio::test]
async fn the_upstream_connection_is_dropped_before_anybody_may_settle() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let serve = Serve::before(&upstream).set("--timeout", "500ms").set("--lease", "1s").set("--probe-after", "1500ms");
    let samekey = serve.start().await;
    let begun = Instant::now();
    samekey.send(&Request::order("k")).await.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    assert_eq!(upstream.ledger().hang_ups(), 0, "it goes on listening for the late answer");
    within(Duration::from_millis(2600), "the drop before settle_after", upstream.ledger().abandoned(1)).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(2300), "timeout + probe_after is 2 s, dropped after {took:?}");
    gate.open();
    for _ in 0..5 {
        samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_body_that_dribbles_past_the_deadline_is_no_answer() {
    let upstream = Upstream::start().await;
    let chunks = [b"x".as_slice(); 100];
    upstream.next(Reply::chunked(201, "text/plain", &chunks).slowly(Duration::from_millis(100)));
    let samekey = Serve::before(&upstream).quick().start().await;
    let answer = samekey.send(&Request::order("k")).await;
    answer.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
}

#[tokio::test]
async fn a_slow_upload_does_not_use_up_the_handlers_time() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).quick().start().await;
    let request = Request::post("/files").key("k").body("text/plain", vec![b'x'; 1500]);
    let mut client = samekey.connect().await;
    client.send(&request.head_bytes()).await;
    for piece in request.body_bytes().chunks(100) {
        client.send(piece).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client.answer().await.ran(201, "completed", 1);
}

#[tokio::test]
async fn a_handler_longer_than_the_lease_keeps_its_claim() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let serve = Serve::before(&upstream).set("--lease", "500ms").waits("100ms", "1s");
    let samekey = serve.start().await;
    let first = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        samekey.send(&Request::order("k")).await.refuses(409, "operation_in_progress", "wait", "in_progress");
    }
    gate.open();
    let first = first.await.expect("the first answer");
    first.ran(201, "completed", 1);
    samekey.send(&Request::order("k")).await.replays(&first);
}
