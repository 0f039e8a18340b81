//! What the sweeper does to records, and when.

use super::*;
use crate::store::conformance::sweeping::{done, sweep};

/// A store that sweeps when it is told to, under this contract.
async fn bench(policy: Policy) -> (Bench, Policy) {
    let bench = Bench::new().await;
    bench.store.policies().add(policy.clone());
    (bench, policy)
}

#[tokio::test]
async fn the_store_sweeps_by_itself() {
    let bench = Bench::attended().await;
    let ask = ask("k");
    let id = done(&bench.store, &ask).await;
    bench.hands.advance(ask.policy.retention);
    let swept = async {
        while bench.store.response(id).await.unwrap().is_some() {
            bench.hands.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), swept).await.expect("what is due is swept");
}

#[tokio::test]
async fn what_is_due_is_found_by_an_index() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let of = |condition: &str| -> String {
        let sql = format!("EXPLAIN QUERY PLAN SELECT id FROM idempotency_keys WHERE {condition}");
        beside(&bench.path()).query_row(&sql, [], |row| row.get(3)).unwrap()
    };
    let plan = of("state IN ('completed', 'failed') AND expires_at <= 5 ORDER BY expires_at LIMIT 9");
    assert!(plan.contains("idempotency_keys_expiring"), "{plan}");
    let plan = of("state IN ('expired', 'released') AND coalesce(look_at, finished_at) <= 5 \
         ORDER BY coalesce(look_at, finished_at) LIMIT 9");
    assert!(plan.contains("idempotency_keys_forgettable"), "{plan}");
}

/// The store's own thread may be moving it at the moment.
async fn empty_wal(bench: &Bench) {
    let truncate = |conn: &rusqlite::Connection| {
        while conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap() != 0 {}
    };
    bench.on_writer(truncate).await;
}

#[tokio::test]
async fn space_that_nothing_needs_is_given_back() {
    let (bench, policy) = bench(Policy::new("orders.create")).await;
    for number in 0..160 {
        let ask = ask(&format!("k{number}"));
        let (id, fence) = run(&bench.store, &ask).await;
        let event = Event::Finish(fence, Finish::Terminal(terminal(201)));
        let large = StoredResponse { body: Bytes::from(vec![b'x'; 100_000]), ..answer("") };
        bench.store.apply(id, Arc::clone(&ask.policy), event, Some(large)).await.unwrap();
    }
    empty_wal(&bench).await;
    let size = || std::fs::metadata(bench.path()).unwrap().len();
    let full = size();
    assert!(full > 16_000_000);
    bench.hands.advance(policy.retention);
    assert_eq!(sweep(&bench.store).await.expired, 160);
    let mut turns = 0;
    while bench.store.vacuum().await.unwrap() {
        turns += 1;
        assert!(turns < 10_000, "it comes to an end");
    }
    empty_wal(&bench).await;
    assert!(size() < 5_000_000, "{full} are {} now", size());
    let check: String = beside(&bench.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
