//! A store that cannot write for a while.

use std::pin::pin;
use std::time::Duration;

use samekey::{EffectError, State};

use super::support::{Provider, bench, created, policy};

/// Long enough for several tries to fail.
const A_WHILE: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_call_waits_until_it_is_noted_and_is_made_once() {
    let (bench, provider) = (bench().await, Provider::default());
    let mut claim = bench.claim("k1", &policy()).await;
    let lock = bench.locked();
    {
        let mut charging = pin!(provider.charge(&mut claim));
        assert!(tokio::time::timeout(A_WHILE, &mut charging).await.is_err());
        assert_eq!(provider.calls(), 0, "nothing is called that is not noted");
        drop(lock);
        assert_eq!(charging.await.unwrap(), "ch_1");
    }
    assert_eq!(provider.calls(), 1);
    claim.complete(created()).await.unwrap();
}

#[tokio::test]
async fn a_call_that_could_not_be_noted_was_not_made() {
    let (bench, provider) = (bench().await, Provider::default());
    let short = policy().timeout(Duration::from_millis(300));
    let mut claim = bench.claim("k1", &short).await;
    let lock = bench.locked();
    let refused = provider.charge(&mut claim).await.unwrap_err();
    assert!(matches!(refused, EffectError::Store(_)), "{refused}");
    assert_eq!(provider.calls(), 0);
    drop(lock);
}

#[tokio::test]
async fn a_call_whose_end_could_not_be_noted_is_unknown_and_never_made_again() {
    let (bench, provider) = (bench().await, Provider::default());
    let short = policy().timeout(Duration::from_millis(400)).journaled(true);
    let mut claim = bench.claim("k1", &short).await;
    let mut lock = None;
    let call = |_: samekey::ProviderKey| {
        lock = Some(bench.locked());
        let called = provider.called();
        async { Ok(called) }
    };
    assert!(claim.effect::<String, _, _>("charge", call).await.unwrap_err().is_unknown());
    drop(lock);
    claim.release().await.unwrap_err();
    assert_eq!((bench.state("k1").await, provider.calls()), (State::Uncertain, 1));
}

#[tokio::test]
async fn an_answer_is_held_until_it_is_stored_whoever_hangs_up() {
    let bench = bench().await;
    let claim = bench.claim("k1", &policy()).await;
    let other = bench.claim("k2", &policy()).await;
    let lock = bench.locked();
    let completing = claim.complete(created());
    tokio::pin!(completing);
    assert!(tokio::time::timeout(A_WHILE, &mut completing).await.is_err());
    assert!(tokio::time::timeout(A_WHILE, other.complete(created())).await.is_err(), "its caller went away");
    assert_eq!([bench.state("k1").await, bench.state("k2").await], [State::InProgress; 2]);
    drop(lock);
    assert!(!completing.await.unwrap().replayed);
    bench.becomes("k2", State::Completed).await;
}
