//! Settled from outside, by whoever found out.

use samekey::{Code, Settlement, State};

use super::support::{Bench, Provider, bench, created, declined, policy, s};

/// An uncertain record with an open effect.
async fn uncertain(bench: &Bench, key: &str) {
    let mut claim = bench.claim(key, &policy()).await;
    assert!(Provider::default().lose(&mut claim).await.is_unknown());
    claim.uncertain("the provider did not answer").await.unwrap();
}

#[tokio::test]
async fn a_settlement_holds_for_what_was_looked_at() {
    let bench = bench().await;
    uncertain(&bench, "k1").await;
    let early = bench.record("k1").await;
    let settle = async |seen, to| bench.store.settle(early.id, seen, to, "ann", "asked the provider").await;
    let refused = settle(early.seen, Settlement::Released).await.unwrap_err();
    assert_eq!((refused.code, refused.retry_after), (Code::OutcomeUncertain, Some(s(90))), "too early: {refused}");
    bench.hands.advance(s(91));
    assert_eq!(
        settle(early.seen, Settlement::Released).await.unwrap_err().code,
        Code::OutcomeUncertain,
        "looked too early"
    );
    let seen = bench.record("k1").await.seen;
    assert!(settle(seen, Settlement::Completed(declined())).await.is_err(), "a 402 completes nothing");
    assert!(settle(seen, Settlement::Failed(created())).await.is_err(), "a 201 fails nothing");
    settle(seen, Settlement::Released).await.unwrap();
    let late = settle(seen, Settlement::Completed(created())).await.unwrap_err();
    assert_eq!((late.code, bench.state("k1").await), (Code::OperationReleased, State::Released));

    let provider = Provider::default();
    let mut claim = bench.claim("k1", &policy()).await;
    assert_eq!(provider.charge(&mut claim).await.unwrap(), "ch_1", "what was not applied may be called again");
    claim.complete(created()).await.unwrap();
    assert_eq!(
        settle(bench.record("k1").await.seen, Settlement::Released).await.unwrap_err().code,
        Code::ResponseNotStored
    );
}

#[tokio::test]
async fn an_answer_that_was_found_out_is_replayed() {
    let bench = bench().await;
    uncertain(&bench, "k1").await;
    bench.hands.advance(s(91));
    let seen = bench.record("k1").await;
    bench.store.settle(seen.id, seen.seen, Settlement::Completed(created()), "ann", "found ch_9").await.unwrap();
    let outcome = bench.hears("k1", &policy()).await.unwrap();
    assert_eq!((outcome.replayed, outcome.answer.body), (true, created().body));
    let steps = bench.store.trail(seen.id).await.unwrap();
    let last = steps.last().unwrap();
    assert_eq!((last.who.as_deref(), last.why.as_deref()), (Some("ann"), Some("found ch_9")));
}

#[tokio::test]
async fn a_record_that_never_was_is_not_settled() {
    let bench = bench().await;
    uncertain(&bench, "k1").await;
    let seen = bench.record("k1").await;
    let nowhere = samekey::RecordId(seen.id.0 + 1);
    let refused = bench.store.settle(nowhere, seen.seen, Settlement::Released, "ann", "").await.unwrap_err();
    assert_eq!(refused.code, Code::ClaimNotFound);
    let unknown = "k2".parse().unwrap();
    assert_eq!(bench.store.look(&samekey::Actor::new("ann"), "checkout", &unknown).await.unwrap(), None);
}
