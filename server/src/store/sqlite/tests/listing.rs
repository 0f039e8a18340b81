//! Looking for records, where there are many of them.

use super::*;
use crate::store::{Page, Search};
use samekey_core::claim::State;

/// More than one call looks at.
const MANY: i64 = 60_000;

/// Copies of one ended record, with gaps between their numbers; the oldest one has a result of its own.
async fn many() -> Bench {
    let bench = Bench::with(SqliteOptions::unattended).await;
    let ask = ask("k-0");
    let (id, fence) = run(&bench.store, &ask).await;
    finish(&bench.store, &ask, id, fence).await;
    bench
        .on_writer(move |conn| {
            let columns: Vec<String> = conn
                .prepare("SELECT name FROM pragma_table_info('idempotency_keys') WHERE name NOT IN ('id', 'idem_key')")
                .unwrap()
                .query_map([], |row| row.get(0))
                .unwrap()
                .collect::<Result<_, _>>()
                .unwrap();
            let columns = columns.join(", ");
            conn.execute_batch(&format!(
                "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY}) \
                 INSERT INTO idempotency_keys (id, idem_key, {columns}) \
                 SELECT 10 + 3 * n, 'k-' || n, {columns} FROM idempotency_keys, n WHERE idem_key = 'k-0'; \
                 UPDATE idempotency_keys SET result_id = 'oldest' WHERE id = {};",
                id.0
            ))
            .unwrap();
        })
        .await;
    bench
}

async fn pages(store: &Store, search: &Search, limit: usize) -> Vec<Page> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = store.records(search, before, limit).await.unwrap();
        before = page.more;
        all.push(page);
        if before.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn a_look_is_bounded_and_none_is_missing() {
    let bench = many().await;
    let all = pages(&bench.store, &Search::default(), 7_000).await;
    let ids: Vec<i64> = all.iter().flat_map(|page| &page.list).map(|listed| listed.case.found.id.0).collect();
    assert_eq!(ids.len() as i64, MANY + 1);
    assert!(ids.is_sorted_by(|one, next| one > next), "each one time, the newest first");
    let sparse = Search { result_id: Some("oldest".into()), ..Search::default() };
    let found = pages(&bench.store, &sparse, 10).await;
    let counts: Vec<usize> = found.iter().map(|page| page.list.len()).collect();
    assert_eq!(counts, [0, 1], "50,000 records were looked at for the first page");
}

#[tokio::test]
async fn what_an_index_knows_takes_no_look_at_the_others() {
    let bench = many().await;
    let running = ask("running");
    let (id, _) = run(&bench.store, &running).await;
    for search in [
        Search { state: Some(State::InProgress), ..Search::default() },
        Search { key: Some(running.key.clone()), ..Search::default() },
        Search { key: Some(running.key.clone()), state: Some(State::InProgress), ..Search::default() },
    ] {
        let found = pages(&bench.store, &search, 10).await;
        assert_eq!(found.len(), 1, "{search:?}");
        assert_eq!(found[0].list.iter().map(|listed| listed.case.found.id).collect::<Vec<_>>(), [id]);
    }
    for state in [State::Uncertain, State::Released] {
        let search = Search { state: Some(state), ..Search::default() };
        let found = pages(&bench.store, &search, 10).await;
        assert!(found.iter().all(|page| page.list.is_empty()), "{state:?}");
        assert_eq!(found.len(), if state == State::Uncertain { 1 } else { 2 });
    }
}

#[tokio::test]
async fn hashes_find_what_they_are_the_hashes_of() {
    let bench = Bench::new().await;
    for key in ["a", "b", "c"] {
        run(&bench.store, &ask(key)).await;
    }
    let hash = bench.store.log_hash("key", "b");
    for hash in [&hash[..], &hash[..5]] {
        let search = Search { key_hash: Some(hash.into()), ..Search::default() };
        let found = bench.store.records(&search, None, 10).await.unwrap();
        assert_eq!(found.list.iter().map(|listed| listed.case.key.expose()).collect::<Vec<_>>(), ["b"]);
    }
}
