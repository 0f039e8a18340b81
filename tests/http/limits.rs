//! Everything has a limit, and beyond it nothing is claimed.

use std::time::Duration;
use support::{Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn an_actor_over_its_quota_of_running_keys_is_told_to_slow_down() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script({
        let gate = gate.clone();
        move |_| Reply::json(201, "{}").gated(&gate)
    });
    let samekey = Serve::before(&upstream).set("--quota", "2").waits("20s", "25s").start().await;
    let running = [samekey.spawn(&Request::order("k-1")), samekey.spawn(&Request::order("k-2"))];
    upstream.ledger().arrived(2).await;
    let over = samekey.send(&Request::order("k-3")).await;
    over.refuses(429, "quota_exceeded", "retry_same_key", "none");
    assert!(over.retry_after().is_some());
    let other_operation = samekey.send(&Request::post("/refunds").key("k-4")).await;
    other_operation.refuses(429, "quota_exceeded", "retry_same_key", "none");
    // A retry is no new key, and other actors have their own quota.
    let waiter = samekey.spawn(&Request::order("k-1"));
    let bob = samekey.spawn(&Request::order("k-3").actor("Bearer bob"));
    upstream.ledger().arrived(3).await;
    gate.open();
    for answer in running {
        answer.await.expect("an answer").ran(201, "completed", 1);
    }
    assert!(waiter.await.expect("an answer").replayed());
    bob.await.expect("an answer").ran(201, "completed", 1);
    samekey.send(&Request::order("k-3")).await.ran(201, "completed", 1);
    for n in 0..5 {
        samekey.send(&Request::order(&format!("later-{n}"))).await.ran(201, "completed", 1);
    }
}

/// The writer waits for a lock that this test holds, so what comes meanwhile queues.
#[tokio::test]
async fn a_full_queue_refuses_new_commands_and_runs_none_of_them() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--queue", "4").start().await;
    let lock = rusqlite::Connection::open(samekey.serve().store()).expect("the store's file");
    lock.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let mut orders: Vec<_> = (0..12).map(|n| samekey.spawn(&Request::order(&format!("k-{n}")))).collect();
    // Those that find the queue full hear so at once.
    while orders.iter().filter(|order| order.is_finished()).count() < 6 {
        tokio::task::yield_now().await;
    }
    lock.execute_batch("ROLLBACK").expect("the lock is given back");
    let mut ran = 0;
    for order in orders.drain(..) {
        let answer = order.await.expect("an answer");
        match answer.status {
            201 => ran += 1,
            _ => drop(answer.refuses(503, "overloaded", "retry_same_key", "unknown")),
        }
    }
    assert!((1..=6).contains(&ran), "{ran} of 12");
    assert_eq!(upstream.ledger().count(), ran, "what was refused did not run");
    samekey.send(&Request::order("later")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn quota_comes_after_mismatch_and_replay() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    let samekey = Serve::before(&upstream).set("--quota", "1").start().await;
    let stored = samekey.send(&Request::order("stored")).await;
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let running = samekey.spawn(&Request::order("running"));
    upstream.ledger().arrived(2).await;
    samekey.send(&Request::order("stored")).await.replays(&stored);
    let other = Request::post("/orders").key("stored").json("{}");
    samekey.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    gate.open();
    running.await.expect("an answer").ran(201, "completed", 1);
}

#[tokio::test]
async fn bodies_over_the_shared_buffer_are_refused_until_there_is_room() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--max-body", "64KiB").set("--max-buffered", "96KiB");
    let samekey = serve.start().await;
    let body = vec![b'x'; 60 * 1024];
    let upload = |key: &str| Request::post("/files").key(key).body("text/plain", &body);
    let mut slow = samekey.connect().await;
    let bytes = upload("slow").bytes();
    let (most, rest) = bytes.split_at(bytes.len() - 10);
    slow.send(most).await;
    let refused = samekey.until(&upload("k"), |answer| answer.status == 503).await;
    // An upload that came before the slow one was read whole may have run; the next one meets it.
    refused.refuses(503, "overloaded", "retry_same_key", "unknown");
    assert!(refused.retry_after().is_some());
    let again = samekey.send(&upload("k-2")).await;
    again.refuses(503, "overloaded", "retry_same_key", "unknown");
    assert_eq!(upstream.effects("k-2"), 0);
    slow.send(rest).await;
    slow.answer().await.ran(201, "completed", 1);
    samekey.until(&upload("k-2"), |answer| answer.status == 201).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn a_buffer_held_by_a_client_that_left_is_given_back() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--max-body", "64KiB").set("--max-buffered", "64KiB");
    let samekey = serve.start().await;
    let upload = |key: &str| Request::post("/files").key(key).body("text/plain", vec![b'x'; 60 * 1024]);
    for _ in 0..10 {
        let mut gone = samekey.connect().await;
        let bytes = upload("gone").bytes();
        gone.send(&bytes[..bytes.len() - 1]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        gone.reset();
    }
    samekey.until(&upload("k"), |answer| answer.status == 201).await.ran(201, "completed", 1);
    assert_eq!(upstream.effects("gone"), 0);
}

#[tokio::test]
async fn waiters_over_the_limit_of_the_server_do_not_wait() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script({
        let gate = gate.clone();
        move |_| Reply::json(201, "{}").gated(&gate)
    });
    let samekey = Serve::before(&upstream).set("--max-waiters", "3").waits("20s", "25s").start().await;
    let first: Vec<_> = ["a", "b"].iter().map(|key| samekey.spawn(&Request::order(key))).collect();
    upstream.ledger().arrived(2).await;
    let waiters: Vec<_> = ["a", "a", "b"].iter().map(|key| samekey.spawn(&Request::order(key))).collect();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let over =
        support::patience::within(Duration::from_secs(5), "no waiting", samekey.send(&Request::order("b"))).await;
    match over.status {
        503 => over.refuses(503, "overloaded", "retry_same_key", "unknown"),
        _ => over.refuses(409, "operation_in_progress", "wait", "in_progress"),
    };
    gate.open();
    for answer in first {
        answer.await.expect("an answer").ran(201, "completed", 1);
    }
    for waiter in waiters {
        assert!(waiter.await.expect("an answer").replayed());
    }
    assert_eq!(upstream.ledger().count(), 2);
}

#[tokio::test]
async fn an_outcome_that_nobody_knows_takes_no_place_of_the_quota() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--quota", "2").start().await;
    for number in 0..4 {
        upstream.next(Reply::reset());
        let lost = samekey.send(&Request::order(&format!("lost-{number}"))).await;
        lost.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    }
    samekey.send(&Request::order("more")).await.ran(201, "completed", 1);
}
