//! How a claim ends: said, dropped, or by a panic.

use std::future::{pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use http::StatusCode;
use samekey::{Answer, Claimed, Code, Fingerprint, Policy, Problem, Reason, Significant, State};

use super::support::{Bench, Provider, bench, command, created, policy, s};

/// A claim whose holder is gone, once its lease has passed.
async fn lapses_into_uncertain(bench: &Bench, key: &str, policy: &Policy) {
    assert_eq!(bench.state(key).await, State::InProgress);
    bench.hands.advance(s(31));
    bench.becomes(key, State::Uncertain).await;
    assert_eq!(bench.record(key).await.reason, Some(Reason::Lapse));
    assert_eq!(bench.hears(key, policy).await.unwrap_err().code, Code::OutcomeUncertain);
}

#[tokio::test]
async fn dropped_it_becomes_uncertain_when_its_lease_has_passed() {
    let bench = bench().await;
    drop(bench.claim("k1", &policy()).await);
    lapses_into_uncertain(&bench, "k1", &policy()).await;
}

#[tokio::test]
async fn dropped_between_journaled_effects_it_is_released_at_once() {
    let (bench, provider) = (bench().await, Provider::default());
    let journaled = policy().journaled(true);
    let mut claim = bench.claim("k1", &journaled).await;
    provider.charge(&mut claim).await.unwrap();
    drop(claim);
    bench.becomes("k1", State::Released).await;
    let mut claim = bench.claim("k1", &journaled).await;
    assert_eq!(provider.charge(&mut claim).await.unwrap(), "ch_1");
    assert_eq!((claim.attempt(), provider.calls()), (2, 1));
    claim.complete(created()).await.unwrap();
}

#[tokio::test]
async fn dropped_with_an_open_effect_it_is_not_released() {
    let (bench, provider) = (bench().await, Provider::default());
    let journaled = policy().journaled(true);
    let mut claim = bench.claim("unknown", &journaled).await;
    assert!(provider.lose(&mut claim).await.is_unknown());
    drop(claim);
    let mut claim = bench.claim("cut-off", &journaled).await;
    {
        let cut_off = claim.effect::<(), _, _>("charge", |_| async {
            provider.called();
            pending().await
        });
        // Polled until the call was made, then dropped.
        tokio::pin!(cut_off);
        while provider.calls() < 2 {
            assert!(tokio::time::timeout(Duration::from_millis(5), &mut cut_off).await.is_err());
        }
    }
    drop(claim);
    for key in ["unknown", "cut-off"] {
        assert_eq!(bench.state(key).await, State::InProgress);
    }
    bench.hands.advance(s(31));
    for key in ["unknown", "cut-off"] {
        bench.becomes(key, State::Uncertain).await;
    }
}

#[tokio::test]
async fn a_panic_in_a_call_leaves_it_open_and_one_between_calls_does_not() {
    let (bench, provider) = (bench().await, Provider::default());
    let journaled = policy().journaled(true);
    for (key, inside) in [("inside", true), ("between", false)] {
        let mut claim = bench.claim(key, &journaled).await;
        let run = async {
            provider.charge(&mut claim).await.unwrap();
            if inside {
                let _: () = claim.effect("ship", |_| async { panic!("in the call") }).await.unwrap();
            }
            panic!("between the calls");
        };
        AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
        drop(claim);
    }
    bench.becomes("between", State::Released).await;
    lapses_into_uncertain(&bench, "inside", &journaled).await;
}

#[tokio::test]
async fn a_claim_that_nobody_was_given_is_released() {
    let bench = bench().await;
    let (mut keys, policy) = (0, policy());
    // The caller hangs up at each poll of its own.
    for polls in (1..4).cycle().take(100) {
        let command = command(&format!("k{keys}"));
        let given = {
            let mut claim = pin!(bench.store.claim(&command, &policy));
            let mut polled = 0;
            let hangs_up = poll_fn(|context| {
                polled += 1;
                match claim.as_mut().poll(context) {
                    Poll::Pending if polled >= polls => Poll::Ready(None),
                    other => other.map(Some),
                }
            });
            hangs_up.await
        };
        match given {
            Some(Ok(Claimed::Run(claim))) if claim.attempt() > 1 => {
                // The clock stands still: no lease passed, so the one before was given back.
                claim.complete(created()).await.unwrap();
                return;
            }
            // Nobody was there before: another key.
            Some(Ok(Claimed::Run(claim))) => {
                claim.complete(created()).await.unwrap();
                keys += 1;
            }
            // It is about to be given back, or was a moment ago.
            Some(Err(problem)) => {
                assert!(matches!(problem.code, Code::OperationInProgress | Code::OperationReleased), "{problem}");
            }
            Some(Ok(Claimed::Replay(outcome))) => panic!("{outcome:?}"),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    panic!("it never came");
}

#[tokio::test]
async fn what_is_said_of_the_end_is_what_the_record_says() {
    let bench = bench().await;
    let policy = policy();
    let uncertain = bench.claim("k1", &policy).await.uncertain("nobody wrote down what it did").await.unwrap();
    assert_eq!(uncertain.code, Code::OutcomeUncertain);
    let record = bench.record("k1").await;
    assert_eq!((record.state, record.reason), (State::Uncertain, Some(Reason::Holder)));
    let steps = bench.store.trail(record.id).await.unwrap();
    assert_eq!(steps[0].why.as_deref(), Some("nobody wrote down what it did"));

    let contradicts = bench.claim("k2", &policy).await.fail(created()).await.unwrap_err();
    assert_eq!((contradicts.code, bench.state("k2").await), (Code::OutcomeUncertain, State::Uncertain));

    let not_found = Answer::empty(StatusCode::NOT_FOUND);
    bench.claim("k3", &policy).await.complete(not_found.clone()).await.unwrap();
    assert_eq!(bench.state("k3").await, State::Failed);
    assert_eq!(bench.hears("k3", &policy).await.unwrap().answer, not_found);

    bench.claim("k4", &policy).await.release().await.unwrap();
    assert_eq!(bench.claim("k4", &policy).await.attempt(), 2);
}

#[tokio::test]
async fn a_policy_that_cannot_hold_claims_nothing() {
    let bench = bench().await;
    let never_remembered = policy().remember(s(1));
    let refused = bench.hears("k1", &never_remembered).await.unwrap_err();
    assert_eq!(refused.code, Code::StoreUnavailable);
    drop(bench.claim("k1", &policy()).await);
}

#[tokio::test]
async fn a_deploy_that_changes_what_counts_keeps_known_keys() {
    let bench = bench().await;
    let sent = |body: &[u8], significant: &Significant| {
        let fingerprint = Fingerprint::of_body(Some("application/json"), None, body, significant).unwrap();
        let mut command = command("k1");
        command.fingerprint = fingerprint;
        command
    };
    let (one, other) = (br#"{"sku":"tea","ui":1}"#, br#"{"sku":"jam","ui":1}"#);
    let Ok(Claimed::Run(claim)) = bench.store.claim(&sent(one, &Significant::everything()), &policy()).await else {
        panic!("a replay")
    };
    claim.complete(created()).await.unwrap();
    let narrower = Significant::exclude(["/ui"]);
    let told = bench.store.claim(&sent(one, &narrower), &policy()).await;
    assert!(matches!(told, Ok(Claimed::Replay(_))), "{told:?}");
    let told: Result<Claimed, Problem> = bench.store.claim(&sent(other, &narrower), &policy()).await;
    assert_eq!(told.unwrap_err().code, Code::KeyPayloadMismatch);
}
