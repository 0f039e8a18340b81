//! A retry while the first delivery still runs.

use std::time::{Duration, Instant};
use support::patience::patiently;
use support::{Gate, Reply, Request, Serve, Server, Upstream};

async fn held(serve: impl FnOnce(Serve) -> Serve) -> (Upstream, Server, Gate) {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"o-1"}"#).header("Location", "/orders/o-1").gated(&gate));
    let samekey = serve(Serve::before(&upstream)).start().await;
    (upstream, samekey, gate)
}

#[tokio::test]
async fn a_waiter_gets_the_first_answer_as_a_replay() {
    let (upstream, samekey, gate) = held(|serve| serve).await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let waiters: Vec<_> = (0..5).map(|_| samekey.spawn(&Request::order("k-1"))).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "default_wait is 5 s");
    gate.open();
    let first = first.await.expect("the first answer");
    first.ran(201, "completed", 1);
    for waiter in waiters {
        waiter.await.expect("a waiter's answer").replays(&first);
    }
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn after_default_wait_the_waiter_hears_that_it_is_in_progress() {
    let (upstream, samekey, gate) = held(|serve| serve.waits("300ms", "2s")).await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let begun = Instant::now();
    let waiter = samekey.send(&Request::order("k-1")).await;
    assert!(begun.elapsed() >= Duration::from_millis(300) && begun.elapsed() < Duration::from_secs(2));
    waiter.refuses(409, "operation_in_progress", "wait", "in_progress");
    assert_eq!(waiter.receipt().attempt, Some(1));
    assert!(waiter.retry_after().is_some_and(|seconds| (1..=60).contains(&seconds)), "a Retry-After to live with");
    gate.open();
    let first = first.await.expect("the first answer");
    samekey.send(&Request::order("k-1")).await.replays(&first);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn prefer_wait_shortens_and_lengthens_the_waiting() {
    let (upstream, samekey, gate) = held(|serve| serve.waits("400ms", "25s")).await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let begun = Instant::now();
    let waiter = samekey.send(&Request::order("k-1").header("Prefer", "wait=0")).await;
    waiter.refuses(409, "operation_in_progress", "wait", "in_progress");
    assert!(begun.elapsed() < Duration::from_millis(350), "wait=0 does not wait");
    let long = samekey.spawn(&Request::order("k-1").header("Prefer", "respond-async, wait=20"));
    let quoted = samekey.spawn(&Request::order("k-1").header("Prefer", "Wait = 20; x=1"));
    let second_line =
        samekey.spawn(&Request::order("k-1").header("Prefer", "handling=lenient").header("prefer", "wait=20"));
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(!long.is_finished() && !quoted.is_finished() && !second_line.is_finished());
    gate.open();
    let first = first.await.expect("the first answer");
    for waiter in [long, quoted, second_line] {
        waiter.await.expect("a waiter's answer").replays(&first);
    }
}

#[tokio::test]
async fn prefer_wait_is_capped_by_max_wait_and_nonsense_is_ignored() {
    let (upstream, samekey, gate) = held(|serve| serve.waits("200ms", "700ms")).await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let wishes = [
        ("wait=600", 700),
        ("wait=99999999999999999999999", 200),
        ("wait=-1", 200),
        ("wait=soon", 200),
        ("wait", 200),
        ("await=600", 200),
        ("", 200),
    ];
    for (wish, at_least) in wishes {
        let begun = Instant::now();
        let waiter = samekey.send(&Request::order("k-1").header("Prefer", wish)).await;
        waiter.refuses(409, "operation_in_progress", "wait", "in_progress");
        let took = begun.elapsed();
        let limits = Duration::from_millis(at_least - 5)..Duration::from_millis(2500);
        assert!(limits.contains(&took), "{wish:?} waited {took:?}");
    }
    gate.open();
    first.await.expect("the first answer").ran(201, "completed", 1);
}

#[tokio::test]
async fn under_the_ietf_profile_nobody_waits_unasked() {
    let (upstream, samekey, gate) = held(|serve| serve.set("--profile", "ietf")).await;
    let first = samekey.spawn(&Request::order("\"k-1\""));
    upstream.ledger().arrived(1).await;
    let begun = Instant::now();
    let waiter = samekey.send(&Request::order("\"k-1\"")).await;
    waiter.refuses(409, "operation_in_progress", "wait", "in_progress");
    assert!(begun.elapsed() < Duration::from_secs(2));
    gate.open();
    first.await.expect("the first answer").ran(201, "completed", 1);
}

#[tokio::test]
async fn a_hundred_simultaneous_requests_are_one_effect() {
    let (upstream, samekey, gate) = held(|serve| serve.waits("10s", "25s")).await;
    let answers: Vec<_> = (0..100).map(|_| samekey.spawn(&Request::order("k-1"))).collect();
    upstream.ledger().arrived(1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    gate.open();
    let (mut ran, mut replayed, mut busy) = (0, 0, 0);
    for answer in answers {
        let answer = answer.await.expect("an answer");
        match (answer.status, answer.replayed()) {
            (201, false) => ran += 1,
            (201, true) => replayed += 1,
            _ => {
                answer.refuses(409, "operation_in_progress", "wait", "in_progress");
                busy += 1;
            }
        }
    }
    assert_eq!((ran, ran + replayed + busy), (1, 100));
    assert!(replayed >= 16, "sixteen wait, whatever else happens: {replayed}");
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn a_race_of_many_keys_is_one_effect_each() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let keys: Vec<_> = (0..30).map(|n| format!("race-{n}")).collect();
    let race: Vec<_> = (0..10).flat_map(|_| &keys).map(|key| samekey.spawn(&Request::order(key))).collect();
    for answer in race {
        let answer = answer.await.expect("an answer");
        assert!(answer.status == 201 || answer.problem().code == "operation_in_progress", "{answer:?}");
    }
    for key in &keys {
        assert_eq!(upstream.effects(key), 1, "{key}");
    }
}

#[tokio::test]
async fn the_waiter_too_many_is_told_at_once() {
    let (upstream, samekey, gate) = held(|serve| serve.waits("10s", "25s").set("--waiters-per-key", "2")).await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let waiters = [samekey.spawn(&Request::order("k-1")), samekey.spawn(&Request::order("k-1"))];
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    let third = samekey.send(&Request::order("k-1")).await;
    third.refuses(409, "operation_in_progress", "wait", "in_progress");
    assert!(begun.elapsed() < Duration::from_secs(5), "it did not wait");
    gate.open();
    let first = first.await.expect("the first answer");
    for waiter in waiters {
        waiter.await.expect("a waiter's answer").replays(&first);
    }
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn a_waiter_that_hangs_up_gives_its_place_back() {
    let (upstream, samekey, gate) = held(|serve| serve.waits("10s", "25s").set("--waiters-per-key", "1")).await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let mut gone = samekey.connect().await;
    gone.request(&Request::order("k-1")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    gone.reset();
    let mut waiter = None;
    patiently("a free place", async {
        while waiter.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            waiter = Some(samekey.spawn(&Request::order("k-1")));
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    })
    .await;
    gate.open();
    let first = first.await.expect("the first answer");
    waiter.expect("a waiter").await.expect("its answer").replays(&first);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn a_waiter_never_becomes_a_runner() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(401, "{}").gated(&gate));
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let waiter = samekey.spawn(&Request::order("k-1"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    gate.open();
    first.await.expect("the first answer").ran(401, "released", 1);
    let waiter = waiter.await.expect("the waiter's answer");
    waiter.refuses(409, "operation_released", "retry_same_key", "released");
    assert_eq!(upstream.effects("k-1"), 1, "nobody ran in the waiter's name");
    samekey.send(&Request::order("k-1")).await.ran(201, "completed", 2);
}

#[tokio::test]
async fn a_waiter_hears_of_an_uncertain_end() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::reset().gated(&gate));
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let waiter = samekey.spawn(&Request::order("k-1"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    gate.open();
    for answer in [first, waiter] {
        let answer = answer.await.expect("an answer");
        answer.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    }
    assert_eq!(upstream.effects("k-1"), 1);
}
