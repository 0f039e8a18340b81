//! The counts are what counting would say, and reading them costs the same in every store.

use std::collections::BTreeMap;

use samekey_core::claim::{Reason, State};

use super::*;
use crate::store::sqlite::sample::{COUNTS, OLDEST};

/// What is there, counted one by one.
fn counted(path: &Path) -> BTreeMap<(String, String), i64> {
    let sql =
        "SELECT CASE WHEN configured THEN operation ELSE '' END, state, count(*) FROM idempotency_keys GROUP BY 1, 2";
    pairs(path, sql)
}

/// What the writes kept.
fn kept(path: &Path) -> BTreeMap<(String, String), i64> {
    pairs(path, "SELECT operation, state, records FROM samekey_counts WHERE records <> 0")
}

fn pairs(path: &Path, sql: &str) -> BTreeMap<(String, String), i64> {
    let conn = beside(path);
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

async fn applies(store: &Store, ask: &Ask, id: RecordId, event: Event) -> Option<State> {
    store.apply(id, Arc::clone(&ask.policy), event, None).await.unwrap().record.map(|record| record.state)
}

#[tokio::test]
async fn every_way_of_a_record_keeps_the_counts() {
    let bench = Bench::new().await;
    let (store, other) = (&bench.store, bench.second().await);
    let released = Event::Finish;
    for number in 0..4 {
        let asked = ask(&format!("done-{number}"));
        let (id, fence) = run(if number % 2 == 0 { store } else { &other }, &asked).await;
        finish(store, &asked, id, fence).await;
    }
    let again = ask("again");
    let (id, fence) = run(store, &again).await;
    let event = released(fence, Finish::Released { not_before: None });
    assert_eq!(applies(store, &again, id, event.clone()).await, Some(State::Released));
    assert_eq!(applies(store, &again, id, event).await, Some(State::Released), "the same once more changes nothing");
    run(store, &again).await;
    let lost = ask("lost");
    let (id, fence) = run(store, &lost).await;
    assert_eq!(
        applies(store, &lost, id, released(fence, Finish::Uncertain(Reason::NoAnswer))).await,
        Some(State::Uncertain)
    );
    let unconfigured = Ask { operation: "POST /x/17".into(), also: vec![], configured: false, ..ask("plain") };
    run(store, &unconfigured).await;
    store.close_key(ask("closed")).await.unwrap();
    assert_eq!(kept(&bench.path()), counted(&bench.path()));
    assert_eq!(kept(&bench.path())[&(String::new(), "in_progress".into())], 1, "paths share a name");

    bench.hands.advance(s(8 * 86_400));
    let done = ask("done-0");
    let sweep = Event::Sweep { key_time: None, forget_limit: START };
    let id = store.find(&done).await.unwrap().unwrap().id;
    assert_eq!(applies(store, &done, id, sweep.clone()).await, Some(State::Expired));
    assert_eq!(kept(&bench.path()), counted(&bench.path()));
    bench.hands.advance(s(31 * 86_400));
    assert_eq!(applies(store, &done, id, sweep).await, None, "forgotten");
    assert_eq!(kept(&bench.path()), counted(&bench.path()));
    other.close().await;
}

#[tokio::test]
async fn what_is_rolled_back_is_not_counted() {
    let bench = Bench::new().await;
    beside(&bench.path())
        .execute_batch("CREATE TRIGGER refuse BEFORE INSERT ON idempotency_keys WHEN new.idem_key = 'bad' BEGIN SELECT raise(ROLLBACK, 'no'); END")
        .unwrap();
    let paused = bench.pause();
    let asks: Vec<_> = ["a", "bad", "b"].map(|key| (bench.store.clone(), ask(key))).into();
    let asked: Vec<_> =
        asks.into_iter().map(|(store, ask)| tokio::spawn(async move { store.deliver(ask).await })).collect();
    while bench.store.queue().length < 3 {
        tokio::task::yield_now().await;
    }
    drop(paused);
    let mut refused = 0;
    for asked in asked {
        refused += usize::from(asked.await.unwrap().is_err());
    }
    assert_eq!(refused, 1);
    assert_eq!(kept(&bench.path()), counted(&bench.path()));
    assert_eq!(kept(&bench.path()).values().sum::<i64>(), 2);
}

#[tokio::test]
async fn the_oldest_uncertain_record_of_each_operation_is_told() {
    let bench = Bench::new().await;
    for key in ["first", "second"] {
        let asked = ask(key);
        let (id, fence) = run(&bench.store, &asked).await;
        let event = Event::Finish(fence, Finish::Uncertain(Reason::NoAnswer));
        applies(&bench.store, &asked, id, event).await;
        bench.hands.advance(s(100));
    }
    let sample = bench.store.sample().await.unwrap();
    let probe_after = Policy::new("orders.create").probe_after();
    assert_eq!(sample.uncertain, [("orders.create".to_owned(), START + probe_after)]);
    assert!(sample.records.contains(&("orders.create".to_owned(), State::Uncertain, 2)), "{sample:?}");
    assert!(sample.size_bytes > 0);
}

#[tokio::test]
async fn no_question_scans_the_records() {
    let bench = Bench::new().await;
    let conn = beside(&bench.path());
    for sql in [COUNTS, OLDEST] {
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let name = if sql.contains("?1") { vec!["orders.create"] } else { vec![] };
        let steps = plan.query_map(rusqlite::params_from_iter(name), |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
        for step in &steps {
            assert!(!step.contains("SCAN idempotency_keys") && !step.contains("TEMP B-TREE"), "{steps:?}");
        }
        let searched = steps.iter().any(|step| step.contains("INDEX idempotency_keys_uncertain_of (<expr>=?)"));
        assert_eq!(searched, sql == OLDEST, "{steps:?}");
    }
}
