//! Holders that come late: after the lease, after the deadline, after somebody else.

use std::future::pending;
use std::time::Duration;

use samekey::{Claim, Code, EffectError, Policy, ProviderKey, Reason, Recovery, Settlement, State};

use super::support::{Bench, Provider, bench, created, declined, policy, quick, s};

/// Time passes as if this process had been stopped, until another delivery finds the claim uncertain. Whoever sees the
/// clock leap judges nothing for a lease.
async fn overslept(bench: &Bench, key: &str, policy: &Policy) {
    for _ in 0..4 {
        bench.hands.advance(s(61));
        match bench.hears(key, policy).await.unwrap_err().code {
            Code::OutcomeUncertain => return,
            code => assert_eq!(code, Code::OperationInProgress),
        }
    }
    panic!("nobody judged");
}

/// Attempt 1, whose holder slept until attempt 2 took over.
async fn overtaken(bench: &Bench, key: &str) -> (Claim, Claim, Policy) {
    let rerun = policy().recovery(Recovery::Rerun);
    let first = bench.claim(key, &rerun).await;
    overslept(bench, key, &rerun).await;
    bench.hands.advance(s(90));
    let second = bench.claim(key, &rerun).await;
    assert_eq!((first.attempt(), second.attempt()), (1, 2));
    (first, second, rerun)
}

#[tokio::test]
async fn after_the_deadline_nothing_is_called() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    bench.hands.advance(s(61));
    let stale = provider.charge(&mut claim).await.unwrap_err();
    assert!(matches!(stale, EffectError::Stale { .. }), "{stale}");
    assert_eq!(samekey::Problem::from(stale).code, Code::ClaimStale);
    assert_eq!(provider.calls(), 0);
    // What it did before counts all the same.
    claim.complete(created()).await.unwrap();
    assert_eq!(bench.state("k1").await, State::Completed);
}

#[tokio::test]
async fn whoever_was_overtaken_writes_nothing_more() {
    let (bench, provider) = (bench().await, Provider::default());
    let (mut first, second, _) = overtaken(&bench, "k1").await;
    let stale = provider.charge(&mut first).await.unwrap_err();
    assert!(matches!(stale, EffectError::Stale { state: Some(State::InProgress) }), "{stale}");
    assert_eq!(provider.calls(), 0);
    let stale = first.complete(created()).await.unwrap_err();
    assert_eq!(stale.code, Code::ClaimStale);
    assert_eq!(stale.receipt.unwrap().attempt, Some(2), "how the record stands now");
    second.complete(created()).await.unwrap();
    for end in ["fail", "release", "uncertain"] {
        let bench = super::support::bench().await;
        let (first, second, _) = overtaken(&bench, "k1").await;
        let refused = match end {
            "fail" => first.fail(declined()).await.unwrap_err(),
            "release" => first.release().await.unwrap_err(),
            _ => first.uncertain("late").await.unwrap_err(),
        };
        assert_eq!((refused.code, bench.state("k1").await), (Code::ClaimStale, State::InProgress), "{end}");
        second.complete(created()).await.unwrap();
    }
}

#[tokio::test]
async fn whoever_was_overtaken_tells_the_answer_that_was_given() {
    let bench = bench().await;
    let (first, second, _) = overtaken(&bench, "k1").await;
    second.complete(created()).await.unwrap();
    let outcome = first.fail(declined()).await.unwrap();
    assert!(outcome.replayed && outcome.answer.status == created().status, "the only answer that ever was");
}

#[tokio::test]
async fn a_rerun_cannot_say_that_nothing_happened() {
    let bench = bench().await;
    let (first, second, rerun) = overtaken(&bench, "k1").await;
    drop(first);
    assert_eq!(second.release().await.unwrap_err().code, Code::OutcomeUncertain);
    let record = bench.record("k1").await;
    assert_eq!((record.state, record.reason), (State::Uncertain, Some(Reason::EarlierAttempt)));
    assert_eq!(bench.hears("k1", &rerun).await.unwrap_err().code, Code::OutcomeUncertain);
}

#[tokio::test]
async fn a_call_that_outlived_its_claim_is_kept_while_nobody_else_judged() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    let call = |_: ProviderKey| async {
        overslept(&bench, "k1", &policy()).await;
        Ok(provider.called())
    };
    assert_eq!(claim.effect::<String, _, _>("charge", call).await.unwrap(), "ch_1");
    claim.complete(created()).await.unwrap();
    assert!(bench.hears("k1", &policy()).await.unwrap().replayed);
}

#[tokio::test]
async fn a_call_that_outlived_its_record_is_unknown_to_its_holder() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    let call = |_: ProviderKey| async {
        overslept(&bench, "k1", &policy()).await;
        bench.hands.advance(s(90));
        let seen = bench.record("k1").await;
        bench.store.settle(seen.id, seen.seen, Settlement::Failed(declined()), "ann", "no such charge").await.unwrap();
        Ok(provider.called())
    };
    assert!(claim.effect::<String, _, _>("charge", call).await.unwrap_err().is_unknown());
    let outcome = claim.complete(created()).await.unwrap();
    assert_eq!((outcome.replayed, outcome.answer.status), (true, declined().status), "what the operator said stands");
}

#[tokio::test]
async fn a_call_is_dropped_before_its_record_may_be_settled_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let store = samekey::Store::sqlite(folder.path().join("samekey.db")).await.unwrap();
    let command = super::support::command("k1");
    let Ok(samekey::Claimed::Run(mut claim)) = store.claim(&command, &quick()).await else { panic!("a replay") };
    struct Dropped(samekey::Store, tokio::sync::mpsc::UnboundedSender<samekey::Timestamp>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.1.send(self.0.now()).unwrap();
        }
    }
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let guard = Dropped(store.clone(), tell);
    let hangs = claim.effect::<(), _, _>("charge", |_| async move {
        let _guard = guard;
        pending().await
    });
    assert!(hangs.await.unwrap_err().is_unknown());
    let dropped_at = told.recv().await.unwrap();
    drop(claim);
    let look = async || store.look(&command.actor, "checkout", &command.key).await.unwrap().unwrap();
    while look().await.state != State::Uncertain {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let settle_after = look().await.settle_after.unwrap();
    assert!(dropped_at < settle_after, "{dropped_at:?} {settle_after:?}");
}
