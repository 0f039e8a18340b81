//! Heartbeats, and who may call a claim lapsed.

use samekey_core::claim::State;

use super::*;

async fn lease_until(bench: &Bench, id: RecordId) -> Timestamp {
    let millis = bench.number(&format!("SELECT lease_until FROM idempotency_keys WHERE id = {}", id.0)).await;
    Timestamp::from_millis(millis)
}

async fn state(bench: &Bench, key: &str) -> State {
    bench.store.find(&ask(key)).await.unwrap().unwrap().record.state
}

async fn a_held_claim_is_renewed_up_to_its_deadline_and_others_are_not(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let (alone, _) = run(&bench.store, &ask("k2")).await;
    let hold = bench.store.hold(id, fence, &ask("k1").policy, Duration::ZERO);
    bench.advance(s(10)).await;
    until(async || lease_until(&bench, id).await == START + s(40)).await;
    bench.advance(s(25)).await;
    until(async || lease_until(&bench, id).await == START + s(60)).await;
    assert_eq!(lease_until(&bench, alone).await, START + s(30));
    assert!(hold.stands());
    bench.advance(s(25)).await;
    until(async || !hold.stands()).await;
    assert_eq!(state(&bench, "k1").await, State::InProgress, "its end is not the heartbeat's");
}

async fn a_claim_that_was_taken_is_not_renewed(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let hold = bench.store.hold(id, fence, &ask("k1").policy, Duration::ZERO);
    bench.sql("UPDATE idempotency_keys SET attempt = 2").await;
    bench.advance(s(10)).await;
    until(async || !hold.stands()).await;
    assert_eq!(hold.proved_at(), Duration::ZERO, "or its holder would start a handler on it");
    assert_eq!(lease_until(&bench, id).await, START + s(30));
}

async fn a_claim_lapses_only_before_a_process_that_may_judge(bench: Bench) {
    let lease = ask("k1").policy.lease;
    assert!(!bench.store.may_judge(lease), "it has just started");
    bench.advance(lease).await;
    assert!(bench.store.may_judge(lease));
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let retry = Ask { holder: holder(2), ..ask("k1") };

    // The wall clock alone jumps past the lease.
    bench.set_clock(bench.now() + s(3600)).await;
    assert_eq!(bench.store.peek(&retry).await.unwrap().unwrap().say, Say::Wait);
    assert_eq!(bench.store.deliver(retry.clone()).await.unwrap().say, Say::Wait);
    assert!(!bench.store.may_judge(lease));

    bench.advance(lease).await;
    assert!(bench.store.peek(&retry).await.unwrap().is_none(), "the writer has to judge");
    let told = bench.store.deliver(retry).await.unwrap();
    assert_eq!(told.say, Say::Refuse(samekey_core::problem::Code::OutcomeUncertain));
    assert_eq!(told.found.unwrap().record.state, State::Uncertain);
    let late = finish(&bench.store, &ask("k1"), id, fence).await;
    assert_eq!(late.record.unwrap().state, State::Completed, "the late answer settles it");
}

async fn a_store_that_opened_late_does_not_judge_either(bench: Bench) {
    bench.advance(s(3600)).await;
    let second = bench.second().await;
    assert!(bench.store.may_judge(s(30)));
    assert!(!second.may_judge(s(30)));
    bench.advance(s(30)).await;
    assert!(second.may_judge(s(30)));
}

async fn a_heartbeat_that_is_due_goes_before_the_delivery_that_would_judge(bench: Bench) {
    bench.advance(s(60)).await;
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let hold = bench.store.hold(id, fence, &ask("k1").policy, Duration::ZERO);
    bench.advance(s(30)).await;
    let told = bench.store.deliver(Ask { holder: holder(2), ..ask("k1") }).await.unwrap();
    assert_eq!(told.say, Say::Wait, "lapsed by the clock, but its heartbeat was here");
    until(async || lease_until(&bench, id).await > bench.now()).await;
    assert!(hold.stands());
}

super::cases! {
    a_heartbeat_that_is_due_goes_before_the_delivery_that_would_judge,
    a_held_claim_is_renewed_up_to_its_deadline_and_others_are_not,
    a_claim_that_was_taken_is_not_renewed,
    a_claim_lapses_only_before_a_process_that_may_judge,
    a_store_that_opened_late_does_not_judge_either,
}
