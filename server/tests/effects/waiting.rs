//! Deliveries that meet a claim that is running.

use samekey::{Claimed, Code, Policy};

use super::support::{bench, command, created, policy, s};

fn patient() -> Policy {
    policy().wait(s(20), s(20))
}

#[tokio::test]
async fn a_delivery_waits_for_the_answer_of_the_first() {
    let bench = bench().await;
    let claim = bench.claim("k1", &policy()).await;
    assert_eq!(bench.hears("k1", &policy()).await.unwrap_err().code, Code::OperationInProgress);
    let (command, patient) = (command("k1"), patient());
    let waiting = bench.store.claim(&command, &patient);
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), &mut waiting).await.is_err());
    claim.complete(created()).await.unwrap();
    let Claimed::Replay(outcome) = waiting.await.unwrap() else { panic!("it runs") };
    assert!(outcome.replayed && outcome.answer.body == created().body);
}

#[tokio::test]
async fn a_waiter_never_becomes_a_runner() {
    let bench = bench().await;
    let claim = bench.claim("k1", &policy()).await;
    let waiters: Vec<_> = (0..30)
        .map(|_| {
            let store = bench.store.clone();
            tokio::spawn(async move { store.claim(&command("k1"), &patient()).await })
        })
        .collect();
    // Those that find no seat hear so at once: when they are gone the others wait.
    while waiters.iter().filter(|waiter| waiter.is_finished()).count() < 30 - 16 {
        tokio::task::yield_now().await;
    }
    claim.release().await.unwrap();
    let mut heard = std::collections::BTreeMap::new();
    for waiter in waiters {
        let code = waiter.await.unwrap().unwrap_err().code;
        *heard.entry(code.as_str()).or_insert(0) += 1;
    }
    assert_eq!(heard.into_iter().collect::<Vec<_>>(), [("operation_in_progress", 14), ("operation_released", 16)]);
}
