//! Full disks, held locks, full queues, and a batch in which one item is at fault.

use samekey_core::claim::State;
use samekey_core::problem::Code;

use super::*;
use crate::store::StoreError;

/// Leaves room for `pages` more pages.
async fn limit_to(bench: &Bench, pages: i64) {
    bench
        .on_writer(move |conn| {
            let used: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
            let free: i64 = conn.pragma_query_value(None, "freelist_count", |row| row.get(0)).unwrap();
            conn.pragma_update_and_check(None, "max_page_count", used + pages - free, |_| Ok(())).unwrap();
        })
        .await;
}

async fn lift(bench: &Bench) {
    bench.on_writer(|conn| conn.pragma_update_and_check(None, "max_page_count", 1 << 30, |_| Ok(())).unwrap()).await;
}

fn large() -> StoredResponse {
    StoredResponse { headers: Vec::new(), body: vec![7; 1 << 20].into() }
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_leaves_nothing_half_done() {
    let bench = Bench::new().await;
    let (id, fence) = run(&bench.store, &ask("k0")).await;
    limit_to(&bench, 0).await;
    let mut claimed = 0;
    let error = loop {
        match bench.store.deliver(ask(&format!("filler-{claimed}"))).await {
            Ok(_) => claimed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }) && error.is_transient(), "{error}");
    let event = Event::Finish(fence, Finish::Terminal(terminal(200)));
    let error = bench.store.apply(id, ask("k0").policy, event.clone(), Some(large())).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(bench.store.peek(&Ask { holder: holder(2), ..ask("k0") }).await.unwrap().unwrap().say, Say::Wait);
    assert_eq!(count(&bench.path(), "idempotency_keys"), claimed + 1);

    lift(&bench).await;
    run(&bench.store, &ask(&format!("filler-{claimed}"))).await;
    let applied = bench.store.apply(id, ask("k0").policy, event, Some(large())).await.unwrap();
    assert_eq!(applied.record.unwrap().state, State::Completed);
    let whole: String = beside(&bench.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

#[tokio::test]
async fn the_item_that_does_not_fit_fails_alone() {
    let bench = Bench::new().await;
    let (small, by) = run(&bench.store, &ask("small")).await;
    let (big, big_by) = run(&bench.store, &ask("big")).await;
    limit_to(&bench, 20).await;
    let paused = bench.pause();
    let (one, two, three) = (bench.store.clone(), bench.store.clone(), bench.store.clone());
    let event = Event::Finish(big_by, Finish::Terminal(terminal(200)));
    let big = tokio::spawn(async move { one.apply(big, ask("big").policy, event, Some(large())).await });
    let small = tokio::spawn(async move { finish(&two, &ask("small"), small, by).await });
    let fresh = tokio::spawn(async move { run(&three, &ask("fresh")).await });
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(paused);
    assert!(matches!(big.await.unwrap().unwrap_err(), StoreError::Full { .. }));
    assert_eq!(small.await.unwrap().record.unwrap().state, State::Completed);
    fresh.await.unwrap();
    assert_eq!(bench.store.peek(&ask("small")).await.unwrap().unwrap().response, Some(answer("done")));
    let other = Ask { holder: holder(2), ..ask("big") };
    assert_eq!(bench.store.peek(&other).await.unwrap().unwrap().say, Say::Wait, "as if it had not been asked");
}

#[tokio::test]
async fn a_lock_that_another_process_holds_is_busy_and_nothing_is_claimed() {
    let bench = Bench::with(|options| options.busy_timeout(Duration::from_millis(30))).await;
    let (id, fence) = run(&bench.store, &ask("k0")).await;
    finish(&bench.store, &ask("k0"), id, fence).await;
    let other = beside(&bench.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = bench.store.deliver(ask("k1")).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }) && error.is_transient(), "{error}");
    assert_eq!(bench.store.peek(&ask("k0")).await.unwrap().unwrap().say, Say::Replay, "a replay takes no lock");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&bench.path(), "idempotency_keys"), 1);
    run(&bench.store, &ask("k1")).await;
}

#[tokio::test]
async fn a_queue_half_full_takes_completions_and_known_keys_but_no_new_claims() {
    let bench = Bench::with(|options| options.queue_capacity(8).unattended()).await;
    let (id, fence) = run(&bench.store, &ask("k0")).await;
    let paused = bench.pause();
    let mut queued = Vec::new();
    for number in 1..=9 {
        let store = bench.store.clone();
        queued.push(tokio::spawn(async move { store.deliver(ask(&format!("k{number}"))).await.unwrap().say }));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let store = bench.store.clone();
    let finished = tokio::spawn(async move { finish(&store, &ask("k0"), id, fence).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(queued[8].is_finished(), "a full queue does not wait");
    drop(paused);
    assert_eq!(finished.await.unwrap().record.unwrap().state, State::Completed);
    let mut said = Vec::new();
    for delivery in queued {
        said.push(matches!(delivery.await.unwrap(), Say::Run(_)));
    }
    assert_eq!(said, [true, true, true, true, false, false, false, false, false]);
    run(&bench.store, &ask("k9")).await;
}

#[tokio::test]
async fn little_free_space_refuses_new_claims_only() {
    let bench = Bench::new().await;
    let (id, fence) = run(&bench.store, &ask("k0")).await;
    let short = Store::open(bench.options().min_free_bytes(u64::MAX)).await.unwrap();
    assert_eq!(short.deliver(ask("k1")).await.unwrap().say, Say::Refuse(Code::Overloaded));
    assert_eq!(finish(&short, &ask("k0"), id, fence).await.record.unwrap().state, State::Completed);
}

#[tokio::test]
async fn a_claim_stands_whose_asker_left_before_commit() {
    let bench = Bench::new().await;
    let paused = bench.pause();
    let store = bench.store.clone();
    let asker = tokio::spawn(async move { store.deliver(ask("k1")).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    asker.abort();
    assert!(asker.await.unwrap_err().is_cancelled());
    drop(paused);
    assert_eq!(bench.store.deliver(Ask { holder: holder(2), ..ask("k1") }).await.unwrap().say, Say::Wait);
    run(&bench.store, &ask("k1")).await;
}

#[tokio::test]
async fn a_writer_that_panicked_leaves_nobody_waiting() {
    let bench = Bench::new().await;
    let paused = bench.pause();
    let store = bench.store.clone();
    let asker = tokio::spawn(async move { store.deliver(ask("k1")).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.backend().hook(|_| panic!("on purpose"));
    drop(paused);
    assert!(matches!(asker.await.unwrap().unwrap_err(), StoreError::Closed));
    assert!(matches!(bench.store.deliver(ask("k1")).await.unwrap_err(), StoreError::Closed));
    bench.store.close().await;
}

#[tokio::test]
async fn health_is_a_real_write_and_believed_for_a_second() {
    let bench = Bench::with(|options| options.busy_timeout(Duration::from_millis(10))).await;
    bench.store.ready().await.unwrap();
    let other = beside(&bench.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    bench.store.ready().await.unwrap();
    bench.hands.advance(s(1));
    assert!(matches!(bench.store.ready().await.unwrap_err(), StoreError::Busy { .. }));
    other.execute_batch("COMMIT").unwrap();
    bench.hands.advance(s(1));
    bench.store.ready().await.unwrap();
}

/// COMMIT fails for transactions that claim a key beginning with `bad`.
async fn break_commits(bench: &Bench) {
    bench
        .on_writer(|conn| {
            conn.execute_batch(
                "CREATE TEMP TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TEMP TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                 CREATE TEMP TRIGGER breaks AFTER INSERT ON main.idempotency_keys WHEN NEW.idem_key LIKE 'bad%'
                 BEGIN INSERT INTO child VALUES (1); END",
            )
            .unwrap();
        })
        .await;
}

#[tokio::test]
async fn a_commit_that_fails_takes_only_the_item_at_fault_with_it() {
    let bench = Bench::new().await;
    break_commits(&bench).await;
    assert!(matches!(bench.store.deliver(ask("bad-0")).await.unwrap_err(), StoreError::Backend { .. }));
    let paused = bench.pause();
    let mut queued = Vec::new();
    for key in ["k1", "bad-1", "k2"] {
        let store = bench.store.clone();
        queued.push(tokio::spawn(async move { store.deliver(ask(key)).await.map(|told| told.say) }));
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(paused);
    let mut ran = Vec::new();
    for delivery in queued {
        ran.push(matches!(delivery.await.unwrap(), Ok(Say::Run(_))));
    }
    assert_eq!(ran, [true, false, true]);
    assert_eq!(count(&bench.path(), "idempotency_keys"), 2);
    bench.on_writer(|conn| conn.execute_batch("DROP TRIGGER temp.breaks").unwrap()).await;
    run(&bench.store, &ask("bad-1")).await;
}
