//! Backups, what is made of them, and what a store then says of keys that it cannot know.

use super::*;
use crate::store::sqlite::copy;
use crate::store::{Policies, Restored, StoreError};
use samekey_core::claim::{Reason, State};
use samekey_core::problem::Code;

const HOUR: Duration = Duration::from_secs(3600);

fn policies() -> Policies {
    let policies = Policies::default();
    policies.add(Policy::new("orders.create"));
    policies
}

/// A copy of the store as it is now, restored an hour later; in another folder.
async fn restored(bench: &Bench) -> (TempDir, Store, Restored) {
    let folder = tempfile::tempdir().unwrap();
    let (copied, to) = (folder.path().join("backup.db"), folder.path().join("samekey.db"));
    bench.store.backup(&copied).await.unwrap();
    bench.hands.advance(HOUR);
    let said = copy::restore(&copied, &to, bench.clock.now(), &policies()).unwrap();
    let options = SqliteOptions::new(&to).clock(bench.clock.clone()).min_free_bytes(0).unattended();
    (folder, Store::open(options).await.unwrap(), said)
}

async fn say(store: &Store, ask: &Ask) -> Say {
    store.deliver(ask.clone()).await.unwrap().say
}

#[tokio::test]
async fn a_backup_is_one_sound_file_for_its_owner_and_overwrites_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new().await;
    for number in 0..50 {
        let ask = ask(&format!("k{number}"));
        let (id, fence) = run(&bench.store, &ask).await;
        finish(&bench.store, &ask, id, fence).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup.db");
    let made = bench.store.backup(&file).await.unwrap();
    assert_eq!((made.records, made.bytes), (50, std::fs::metadata(&file).unwrap().len()));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    let check: String = beside(&file).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    assert!(matches!(bench.store.backup(&file).await, Err(StoreError::Exists { .. })));
    let nowhere = bench.store.backup(folder.path().join("no/backup.db")).await;
    assert!(matches!(nowhere, Err(StoreError::NoDirectory { .. })), "{nowhere:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_is_no_store_is_neither_copied_nor_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, other) = (folder.path().join("missing.db"), folder.path().join("other.db"));
    beside(&other).execute_batch("CREATE TABLE t (a)").unwrap();
    let to = folder.path().join("samekey.db");
    for (from, expected) in [(&missing, "holds no store"), (&other, "another program")] {
        let error = crate::store::restore(from, &to, &policies()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let error = crate::store::backup(from, &to).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let damaged = folder.path().join("damaged.db");
    let bench = Bench::new().await;
    let (id, fence) = run(&bench.store, &ask("k")).await;
    finish(&bench.store, &ask("k"), id, fence).await;
    bench.store.backup(&damaged).await.unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    let page = bytes.len() / 2 / 4096 * 4096;
    bytes[page..page + 4096].fill(0x5a);
    std::fs::write(&damaged, bytes).unwrap();
    let error = crate::store::restore(&damaged, &to, &policies()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(!to.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no part of a copy is left");
}

#[tokio::test]
async fn what_had_ended_is_replayed_and_all_else_is_uncertain() {
    let bench = Bench::new().await;
    let (done, running, released) = (ask("done"), ask(&minted(START)), ask("released"));
    let (id, fence) = run(&bench.store, &done).await;
    finish(&bench.store, &done, id, fence).await;
    let (running_id, running_fence) = run(&bench.store, &running).await;
    let (id, fence) = run(&bench.store, &released).await;
    let event = Event::Finish(fence, Finish::Released { not_before: None });
    bench.store.apply(id, Arc::clone(&released.policy), event, None).await.unwrap();

    let (folder, store, said) = restored(&bench).await;
    assert_eq!((said.records, said.uncertain), (3, 2));
    assert_eq!((said.taken_at, said.horizon), (Some(START), START + HOUR));
    assert_eq!(say(&store, &done).await, Say::Replay);
    for ask in [&running, &released] {
        assert_eq!(say(&store, ask).await, Say::Refuse(Code::OutcomeUncertain));
        let found = store.find(ask).await.unwrap().unwrap().record;
        assert_eq!((found.state, found.reason), (State::Uncertain, Some(Reason::Restore)));
        assert!(found.settle_after.unwrap() >= said.horizon + ask.policy.timeout + ask.policy.probe_after());
    }
    let late = finish(&store, &running, running_id, running_fence).await;
    assert!(late.refused.is_some(), "the answer of an attempt that may not be the last one proves nothing");
    assert_eq!(count(&folder.path().join("samekey.db"), "idempotency_trail WHERE why = 'a backup was restored'"), 2);
    let twice =
        copy::restore(&folder.path().join("backup.db"), &folder.path().join("samekey.db"), said.horizon, &policies());
    assert!(matches!(twice, Err(StoreError::Exists { .. })));
}

#[tokio::test]
async fn a_key_that_may_have_run_meanwhile_does_not_run_and_a_newer_one_does() {
    let bench = Bench::new().await;
    let (_folder, store, said) = restored(&bench).await;
    let skew = Policy::new("orders.create").clock_skew;
    let (lost, edge) = (ask(&minted(START + HOUR / 2)), ask(&minted(said.horizon + skew)));
    for ask in [&lost, &edge, &ask("order-17")] {
        assert_eq!(say(&store, ask).await, Say::Refuse(Code::OutcomeUncertain));
        assert_eq!(say(&store, ask).await, Say::Refuse(Code::OutcomeUncertain), "and goes on being so");
    }
    bench.hands.advance(skew + Duration::from_millis(1));
    assert!(matches!(say(&store, &ask(&minted(bench.clock.now()))).await, Say::Run(_)));
    bench.hands.advance(Policy::new("x").retry_budget);
    assert!(matches!(say(&store, &ask("order-18")).await, Say::Run(_)), "nobody retries a key so old");
}

#[tokio::test]
async fn a_clock_before_the_backup_is_no_moment_to_restore_at() {
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let (copied, to) = (folder.path().join("backup.db"), folder.path().join("samekey.db"));
    bench.store.backup(&copied).await.unwrap();
    let error = copy::restore(&copied, &to, START - HOUR, &policies()).unwrap_err().to_string();
    assert!(error.contains("set the clock"), "{error}");
    assert!(!to.exists());
}

#[tokio::test]
async fn a_backup_is_of_one_moment_while_others_write_and_is_no_burden_to_them() {
    let bench = Bench::new().await;
    for number in 0..200 {
        let ask = ask(&format!("before{number}"));
        let (id, fence) = run(&bench.store, &ask).await;
        let event = Event::Finish(fence, Finish::Terminal(terminal(201)));
        let large = StoredResponse { body: Bytes::from(vec![b'x'; 60_000]), ..answer("") };
        bench.store.apply(id, Arc::clone(&ask.policy), event, Some(large)).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, store) = (folder.path().join("backup.db"), bench.store.clone());
    let copying = tokio::spawn({
        let file = file.clone();
        async move { store.backup(&file).await }
    });
    let mut written = 0_u64;
    while !copying.is_finished() {
        run(&bench.store, &ask(&format!("during{written}"))).await;
        written += 1;
    }
    let made = copying.await.unwrap().unwrap();
    assert!(written > 0, "claims went on");
    assert!((200..=200 + written).contains(&made.records));
    let of = |name: &str| -> i64 {
        let sql = "SELECT coalesce(max(CAST(substr(idem_key, 7) AS INTEGER)) + 1, 0), count(*) FROM idempotency_keys WHERE idem_key GLOB ?1";
        let (newest, all): (i64, i64) =
            beside(&file).query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(newest, all, "no record is missing before one that is there");
        all
    };
    assert_eq!(of("during*") + 200, i64::try_from(made.records).unwrap());
}

#[tokio::test]
async fn a_configured_horizon_is_set_once() {
    let bench = Bench::new().await;
    bench.store.policies().add(Policy::new("orders.create"));
    run(&bench.store, &ask("k")).await;
    assert_eq!(bench.store.set_horizon(START).await.unwrap(), Some(1));
    assert_eq!(bench.store.set_horizon(START).await.unwrap(), None);
    assert_eq!(say(&bench.store, &ask(&minted(START))).await, Say::Refuse(Code::OutcomeUncertain));
    bench.hands.advance(HOUR);
    assert!(matches!(say(&bench.store, &ask(&minted(START + HOUR))).await, Say::Run(_)));
    assert_eq!(bench.store.set_horizon(START + HOUR).await.unwrap(), Some(3), "another restore, another horizon");
    assert_eq!(bench.store.set_horizon(START).await.unwrap(), Some(3));
    let kept: i64 = beside(&bench.path())
        .query_row("SELECT value FROM samekey_meta WHERE name = 'horizon'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, (START + HOUR).as_millis(), "it never moves back");
}
