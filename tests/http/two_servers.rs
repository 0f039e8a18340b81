//! Two server processes on one SQLite file.

use rustix::process::Signal;
use std::time::Duration;
use support::{Gate, Reply, Request, Serve, Server, Upstream};

async fn pair(serve: Serve) -> (Server, Server) {
    (serve.start().await, serve.start().await)
}

#[tokio::test]
async fn a_waiter_on_the_other_process_replays() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"shared"}"#).header("Location", "/orders/1").gated(&gate));
    let (one, two) = pair(Serve::before(&upstream)).await;
    let first = one.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    let waiter = two.spawn(&Request::order("k"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiter.is_finished(), "it waits for the other process");
    gate.open();
    let first = first.await.expect("the first answer");
    waiter.await.expect("the waiter's answer").replays(&first);
    two.send(&Request::order("k")).await.replays(&first);
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn what_one_process_knows_the_other_refuses() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    let (one, two) = pair(Serve::before(&upstream).waits("200ms", "1s")).await;
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let first = one.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    two.send(&Request::order("k")).await.refuses(409, "operation_in_progress", "wait", "in_progress");
    let other = Request::post("/orders").key("k").json("{}");
    two.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    gate.open();
    first.await.expect("the first answer").ran(201, "completed", 1);
    upstream.next(Reply::reset());
    one.send(&Request::order("lost")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    two.send(&Request::order("lost")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let uuid = support::keys::v7();
    one.send(&Request::order(&uuid)).await.ran(201, "completed", 1);
    two.send(&Request::order(&uuid).actor("Bearer other")).await.refuses(409, "actor_changed", "ask", "none");
    assert_eq!((upstream.effects("k"), upstream.effects("lost"), upstream.effects(&uuid)), (1, 1, 1));
}

#[tokio::test]
async fn a_race_on_both_processes_is_one_effect_per_key() {
    let upstream = Upstream::start().await;
    let (one, two) = pair(Serve::before(&upstream)).await;
    let keys: Vec<String> = (0..20).map(|n| format!("race-{n}")).collect();
    let mut storm = Vec::new();
    for _ in 0..3 {
        for key in &keys {
            storm.push(one.spawn(&Request::order(key)));
            storm.push(two.spawn(&Request::order(key)));
        }
    }
    for answer in storm {
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.status, 201, "ran or replayed: {}", answer.text());
    }
    for key in &keys {
        assert_eq!(upstream.effects(key), 1, "{key}");
        let (a, b) = (one.send(&Request::order(key)).await, two.send(&Request::order(key)).await);
        assert_eq!((a.status, &a.body), (201, &b.body));
    }
}

#[tokio::test]
async fn two_processes_may_create_the_store_at_the_same_moment() {
    for _ in 0..3 {
        let upstream = Upstream::start().await;
        let serve = Serve::before(&upstream);
        let (one, two) = tokio::join!(serve.start(), serve.start());
        let order = Request::order("k");
        let (a, b) = tokio::join!(one.send(&order), two.send(&order));
        assert_eq!((a.status, b.status), (201, 201), "{} {}", a.text(), b.text());
        assert_eq!(a.body, b.body);
        assert_eq!(upstream.effects("k"), 1);
    }
}

#[tokio::test]
async fn the_survivor_judges_the_claims_of_the_killed() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::silence());
    // Long enough for what follows to come before it is over, on a machine that is busy with something else.
    let (one, two) = pair(Serve::before(&upstream).set("--lease", "4s").waits("0s", "20s")).await;
    let lost = one.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    one.kill().await;
    assert!(lost.await.is_err());
    two.send(&Request::order("k")).await.refuses(409, "operation_in_progress", "wait", "in_progress");
    let waiter = two.send(&Request::order("k").header("Prefer", "wait=15")).await;
    waiter.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_claim_judged_by_the_other_process_is_still_finished_by_its_holder() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"kept"}"#).gated(&gate));
    let (one, two) = pair(Serve::before(&upstream).set("--lease", "1s").waits("0s", "20s")).await;
    let first = one.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    one.signal(Signal::STOP);
    let judged = two.until(&Request::order("k"), |answer| answer.receipt().state != "in_progress").await;
    judged.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    gate.open();
    one.signal(Signal::CONT);
    let first = first.await.expect("the first answer");
    first.ran(201, "completed", 1);
    two.send(&Request::order("k")).await.replays(&first);
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn one_process_leaving_does_not_disturb_the_other() {
    let upstream = Upstream::start().await;
    let (one, two) = pair(Serve::before(&upstream)).await;
    let first = one.send(&Request::order("k")).await;
    one.stop().await;
    two.send(&Request::order("k")).await.replays(&first);
    two.send(&Request::order("k-2")).await.ran(201, "completed", 1);
    let serve = two.kill().await;
    let three = serve.start().await;
    three.send(&Request::order("k")).await.replays(&first);
}
