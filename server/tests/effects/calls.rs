//! One call after another: what is called again, and what never is.

use std::future::pending;
use std::sync::{Arc, Mutex};

use samekey::claim::MAX_RESULT_BYTES;
use samekey::{Code, EffectError, ProviderKey, Reason, State};

use super::support::{Provider, bench, created, declined, policy};

#[tokio::test]
async fn what_ended_is_not_called_again_by_the_next_attempt() {
    let (bench, provider) = (bench().await, Provider::default());
    for attempt in 1..=3 {
        let mut claim = bench.claim("k1", &policy()).await;
        assert_eq!(claim.attempt(), attempt);
        let call = |_: ProviderKey| async { Ok(provider.called()) };
        assert_eq!(claim.effect_with::<_, String, _, _>("charge", &480, call).await.unwrap(), "ch_1");
        assert_eq!(claim.effect_with::<_, String, _, _>("charge", &480, call).await.unwrap(), "ch_1");
        if attempt < 3 {
            claim.release().await.unwrap();
        } else {
            claim.complete(created()).await.unwrap();
        }
    }
    assert_eq!(provider.calls(), 1);
    assert!(bench.hears("k1", &policy()).await.unwrap().replayed);
}

#[tokio::test]
async fn one_name_stands_for_one_input_in_whatever_order_its_members_are() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    let call = |_: ProviderKey| async { Ok(provider.called()) };
    let order = serde_json::json!({ "cents": 480, "sku": "tea" });
    let first: String = claim.effect_with("charge", &order, call).await.unwrap();
    #[derive(serde::Serialize)]
    struct Order {
        sku: &'static str,
        cents: f64,
    }
    let same = Order { sku: "tea", cents: 480.0 };
    assert_eq!(claim.effect_with::<_, String, _, _>("charge", &same, call).await.unwrap(), first);
    let other = Order { cents: 481.0, ..same };
    let refused = claim.effect_with::<_, String, _, _>("charge", &other, call).await.unwrap_err();
    assert!(matches!(&refused, EffectError::OtherInput { name } if name == "charge"), "{refused}");
    assert!(matches!(provider.charge(&mut claim).await, Err(EffectError::OtherInput { .. })), "none is another one");
    assert_eq!(provider.calls(), 1);
    assert_eq!(samekey::Problem::from(refused).code, Code::OutcomeUncertain);
}

#[tokio::test]
async fn of_what_is_unknown_nobody_says_that_it_failed_or_did_not_happen() {
    let (bench, provider) = (bench().await, Provider::default());
    for (key, fails) in [("k1", true), ("k2", false)] {
        let mut claim = bench.claim(key, &policy()).await;
        assert!(provider.lose(&mut claim).await.is_unknown());
        assert!(provider.charge(&mut claim).await.unwrap_err().is_unknown(), "not called again");
        let problem =
            if fails { claim.fail(declined()).await.unwrap_err() } else { claim.release().await.unwrap_err() };
        assert_eq!(problem.code, Code::OutcomeUncertain);
        let record = bench.record(key).await;
        assert_eq!((record.state, record.reason), (State::Uncertain, Some(Reason::EarlierAttempt)));
    }
    assert_eq!(provider.calls(), 2);
    // Whoever knows the whole may say that it succeeded.
    let mut claim = bench.claim("k3", &policy()).await;
    assert!(provider.lose(&mut claim).await.is_unknown());
    assert!(!claim.complete(created()).await.unwrap().replayed);
    assert_eq!(bench.state("k3").await, State::Completed);
}

#[tokio::test]
async fn what_did_nothing_may_be_called_again_with_the_same_key_for_the_provider() {
    let (bench, provider) = (bench().await, Provider::default());
    let keys: Arc<Mutex<Vec<ProviderKey>>> = Arc::default();
    for _ in 0..2 {
        let mut claim = bench.claim("k1", &policy()).await;
        for _ in 0..2 {
            let call = |key: ProviderKey| async {
                keys.lock().unwrap().push(key);
                Err(EffectError::not_done("connection refused"))
            };
            let refused = claim.effect::<String, _, _>("charge", call).await.unwrap_err();
            assert!(matches!(refused, EffectError::NotDone(_)), "{refused}");
        }
        claim.release().await.unwrap();
    }
    let keys = keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| key == &keys[0] && key.as_str().len() == 32));
    let mut claim = bench.claim("k1", &policy()).await;
    assert_eq!(provider.charge(&mut claim).await.unwrap(), "ch_1");
    let mut other = None;
    claim
        .effect::<(), _, _>("ship", |key| {
            other = Some(key);
            async { Ok(()) }
        })
        .await
        .unwrap();
    assert_ne!(other.unwrap(), keys[0], "another effect has another key");
}

#[tokio::test]
async fn whatever_else_a_call_ends_with_is_unknown() {
    let bench = bench().await;
    let others: [fn() -> EffectError; 3] = [
        || EffectError::Stale { state: None },
        || EffectError::OtherInput { name: "inner".into() },
        || EffectError::NoResult("lost".into()),
    ];
    for (at, other) in others.into_iter().enumerate() {
        let key = format!("k{at}");
        let mut claim = bench.claim(&key, &policy()).await;
        let told = claim.effect::<String, _, _>("charge", |_| async move { Err(other()) }).await.unwrap_err();
        assert!(told.is_unknown(), "{told}");
        claim.release().await.unwrap_err();
    }
}

#[tokio::test]
async fn a_declined_card_is_a_result_and_its_failure_is_final() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    let call = |_: ProviderKey| async { Ok(Err(provider.called())) };
    let charge: Result<(), String> = claim.effect("charge", call).await.unwrap();
    assert_eq!(charge, Err("ch_1".into()));
    let outcome = claim.fail(declined()).await.unwrap();
    let again = bench.hears("k1", &policy()).await.unwrap();
    assert_eq!((outcome.replayed, again.replayed, again.answer.status), (false, true, declined().status));
    assert_eq!((bench.state("k1").await, provider.calls()), (State::Failed, 1));
}

#[tokio::test]
async fn a_result_that_cannot_be_kept_is_given_once_and_never_called_for_again() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    let long = "x".repeat(MAX_RESULT_BYTES);
    let kept = "x".repeat(MAX_RESULT_BYTES - 2);
    let given: String = claim
        .effect("long", |_| async {
            provider.called();
            Ok(long.clone())
        })
        .await
        .unwrap();
    assert_eq!(given, long);
    let _: String = claim
        .effect("kept", |_| async {
            provider.called();
            Ok(kept.clone())
        })
        .await
        .unwrap();
    claim.release().await.unwrap();
    let mut claim = bench.claim("k1", &policy()).await;
    let lost = claim.effect::<String, _, _>("long", |_| pending()).await.unwrap_err();
    assert!(matches!(lost, EffectError::NoResult(_)), "{lost}");
    assert_eq!(claim.effect::<String, _, _>("kept", |_| pending()).await.unwrap(), kept);
    let other_type = claim.effect::<u32, _, _>("kept", |_| pending()).await.unwrap_err();
    assert!(matches!(other_type, EffectError::NoResult(_)), "{other_type}");
    assert_eq!(provider.calls(), 2);
    claim.complete(created()).await.unwrap();
}

#[tokio::test]
async fn a_name_has_to_be_one() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    for name in ["", &"x".repeat(65)] {
        let refused = claim.effect(name, |_| async { Ok(provider.called()) }).await.unwrap_err();
        assert!(matches!(refused, EffectError::Store(_)), "{refused}");
    }
    assert_eq!(provider.calls(), 0);
    claim.release().await.unwrap();
}
