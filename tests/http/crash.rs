//! `kill -9`, a stopped process, and the next start.

use rustix::process::Signal;
use std::time::Duration;
use support::{Answer, Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn a_kill_in_mid_flight_is_in_progress_until_judged_and_then_uncertain() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::silence());
    let serve = Serve::before(&upstream).set("--lease", "1s").waits("0s", "20s");
    let samekey = serve.start().await;
    let lost = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    let samekey = samekey.kill().await.start().await;
    assert!(lost.await.is_err(), "the first caller heard nothing");
    let early = samekey.send(&Request::order("k")).await;
    early.refuses(409, "operation_in_progress", "wait", "in_progress");
    let waiter = samekey.send(&Request::order("k").header("Prefer", "wait=15")).await;
    waiter.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    for _ in 0..3 {
        samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    }
    assert_eq!(upstream.effects("k"), 1, "a lapsed lease is no proof that nothing happened");
    samekey.send(&Request::order("k-2")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn an_answer_that_was_given_survives_a_kill() {
    let upstream = Upstream::start().await;
    let mut serve = Serve::before(&upstream);
    let mut given: Vec<(String, Answer)> = Vec::new();
    for round in 0..4 {
        let samekey = serve.start().await;
        for (key, first) in &given {
            let again = samekey.send(&Request::order(key)).await;
            again.replays(first);
        }
        for n in 0..5 {
            let key = format!("k-{round}-{n}");
            let first = samekey.send(&Request::order(&key)).await;
            first.ran(201, "completed", 1);
            given.push((key, first));
        }
        serve = samekey.kill().await;
    }
    for (key, _) in &given {
        assert_eq!(upstream.effects(key), 1, "{key}");
    }
}

#[tokio::test]
async fn no_kill_at_any_moment_makes_a_second_effect() {
    let upstream = Upstream::start().await;
    upstream.script(|received| {
        let pause = Duration::from_millis(7 * (received.number as u64 % 5));
        Reply::json(201, &format!(r#"{{"id":"o-{}"}}"#, received.number)).after(pause)
    });
    let mut serve = Serve::before(&upstream).set("--lease", "500ms").waits("0s", "20s");
    let keys: Vec<String> = (0..8).map(|n| format!("k-{n}")).collect();
    for round in 0..6 {
        let samekey = serve.start().await;
        let storm: Vec<_> = keys.iter().map(|key| samekey.spawn(&Request::order(key))).collect();
        tokio::time::sleep(Duration::from_millis(round * 9)).await;
        serve = samekey.kill().await;
        for delivery in storm {
            // Answered or not: what counts is what the next one hears.
            drop(delivery.await);
        }
    }
    let samekey = serve.start().await;
    for key in &keys {
        let settled = |answer: &Answer| answer.status == 201 || answer.problem().code == "outcome_uncertain";
        let first = samekey.until(&Request::order(key), settled).await;
        let again = samekey.send(&Request::order(key)).await;
        assert_eq!((again.status, again.receipt()), (first.status, first.receipt()), "{key} stays as it ended");
        assert!(first.status != 201 || again.body == first.body);
        assert!(upstream.effects(key) <= 1, "{key} ran {} times", upstream.effects(key));
    }
}

#[tokio::test]
async fn a_process_that_slept_through_its_lease_still_finishes_its_own_claim() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let samekey = Serve::before(&upstream).set("--lease", "500ms").waits("0s", "20s").start().await;
    let first = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    samekey.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    gate.open();
    samekey.signal(Signal::CONT);
    let first = first.await.expect("the first answer");
    first.ran(201, "completed", 1);
    samekey.send(&Request::order("k")).await.replays(&first);
    assert_eq!(upstream.effects("k"), 1);
}
