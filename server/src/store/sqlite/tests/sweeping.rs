//! What the sweeper does to records, and when.

use super::*;
use crate::store::Swept;

/// Sweeps until nothing is due.
async fn sweep(store: &Store) -> Swept {
    let mut all = Swept { more: true, ..Swept::default() };
    while all.more {
        let Swept { expired, more, next } = store.sweep().await.unwrap();
        all = Swept { expired: all.expired + expired, more, next };
    }
    all
}

#[tokio::test]
async fn an_answer_is_dropped_at_the_moment_it_is_due_and_not_before() {
    let bench = Bench::with(SqliteOptions::unattended).await;
    let ask = ask("k");
    let (id, fence) = run(&bench.store, &ask).await;
    finish(&bench.store, &ask, id, fence).await;
    let due = START + ask.policy.retention;
    assert_eq!(sweep(&bench.store).await, Swept { next: Some(due), ..Swept::default() });
    bench.hands.advance(ask.policy.retention - Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.expired, 0);
    assert!(bench.store.response(id).await.unwrap().is_some());
    bench.hands.advance(Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.expired, 1);
    assert_eq!(bench.store.response(id).await.unwrap(), None);
    let found = bench.store.find(&ask).await.unwrap().unwrap();
    assert_eq!(found.record.state, samekey_core::claim::State::Expired);
}

#[tokio::test]
async fn the_store_sweeps_by_itself() {
    let bench = Bench::new().await;
    let ask = ask("k");
    let (id, fence) = run(&bench.store, &ask).await;
    finish(&bench.store, &ask, id, fence).await;
    bench.hands.advance(ask.policy.retention + Duration::from_secs(60));
    let swept = async {
        while bench.store.response(id).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), swept).await.expect("what is due is swept");
}
