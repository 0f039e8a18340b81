//! Opening, closing, and files that are not ours to write.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::open;
use super::*;
use crate::store::StoreError;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_files_belong_to_their_owner_only() {
    let bench = Bench::new().await;
    run(&bench.store, &ask("k1")).await;
    for file in ["", "-wal", "-shm"] {
        assert_eq!(mode(&open::beside(&bench.path(), file)), 0o600, "{file}");
    }
    bench.store.close().await;
    fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o644)).unwrap();
    bench.second().await;
    assert_eq!(mode(&bench.path()), 0o600, "narrowed");
}

#[tokio::test]
async fn closing_writes_what_is_queued_and_leaves_one_file() {
    let bench = Bench::new().await;
    let secret = *bench.store.secret();
    let paused = bench.pause();
    let mut queued = tokio::task::JoinSet::new();
    for number in 0..300 {
        let store = bench.store.clone();
        queued.spawn(async move { store.deliver(ask(&format!("k{number}"))).await.unwrap().say });
    }
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let store = bench.store.clone();
    let closed = tokio::spawn(async move { store.close().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(paused);
    closed.await.unwrap();
    assert!(queued.join_all().await.iter().all(|say| matches!(say, Say::Run(_))));
    assert!(!open::beside(&bench.path(), "-wal").exists());
    for error in [
        bench.store.deliver(ask("late")).await.unwrap_err(),
        bench.store.peek(&ask("late")).await.unwrap_err(),
        bench.store.ready().await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Closed), "{error}");
    }
    bench.store.close().await;
    let second = bench.second().await;
    assert_eq!(*second.secret(), secret, "drawn once, when the store was made");
    assert_eq!(count(&bench.path(), "idempotency_keys"), 300);
}

#[tokio::test]
async fn a_store_that_was_only_dropped_opens_again() {
    let Bench { directory, store, .. } = Bench::new().await;
    let (id, fence) = run(&store, &ask("k1")).await;
    drop(store);
    let path = directory.path().join("samekey.db");
    let again = Store::sqlite(&path).await.unwrap();
    finish(&again, &ask("k1"), id, fence).await;
    again.ready().await.unwrap();
}

#[tokio::test]
async fn two_processes_may_make_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("samekey.db");
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..8 {
        opening.spawn(Store::sqlite(path.clone()));
    }
    let opened = opening.join_all().await;
    let secrets: Vec<[u8; 32]> = opened.into_iter().map(|store| *store.unwrap().secret()).collect();
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
}

/// What opening `path` says.
async fn refusal(path: &Path) -> StoreError {
    let before = (fs::read(path).ok(), fs::metadata(path).map(|seen| seen.permissions().mode()).ok());
    let error = Store::sqlite(path).await.unwrap_err();
    let after = (fs::read(path).ok(), fs::metadata(path).map(|seen| seen.permissions().mode()).ok());
    assert_eq!(after, before, "a refused file is left alone");
    assert!(error.to_string().starts_with(&*path.to_string_lossy()), "{error}");
    error
}

#[tokio::test]
async fn what_is_no_store_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert!(matches!(refusal(&path("missing/samekey.db")).await, StoreError::NoDirectory { .. }));
    assert!(matches!(refusal(directory.path()).await, StoreError::NotAFile { .. }));

    fs::write(path("letter.txt"), "Dear ann, ".repeat(200)).unwrap();
    assert!(matches!(refusal(&path("letter.txt")).await, StoreError::ForeignFile { .. }));
    beside(&path("app.db")).execute_batch("CREATE TABLE users (id INTEGER)").unwrap();
    assert!(matches!(refusal(&path("app.db")).await, StoreError::ForeignFile { .. }));
    beside(&path("gpkg.db")).execute_batch("PRAGMA application_id = 0x47504b47; CREATE TABLE t (a)").unwrap();
    let error = refusal(&path("gpkg.db")).await;
    // Its last words stand in its WAL, as after a crash.
    let other = beside(&path("wal.db"));
    other.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").unwrap();
    for file in ["wal.db", "wal.db-wal"] {
        fs::copy(path(file), path(&format!("crashed-{file}"))).unwrap();
    }
    assert!(matches!(refusal(&path("crashed-wal.db")).await, StoreError::ForeignFile { .. }));
    assert!(error.to_string().contains("0x47504b47"), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_named() {
    let bench = Bench::new().await;
    bench.store.close().await;
    beside(&bench.path()).pragma_update(None, "user_version", open::SCHEMA + 1).unwrap();
    let error = refusal(&bench.path()).await;
    assert!(matches!(error, StoreError::NewerSchema { found, known, .. } if (found, known) == (2, 1)), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_named() {
    let bench = Bench::new().await;
    for number in 0..200 {
        run(&bench.store, &ask(&format!("k{number}"))).await;
    }
    bench.store.close().await;
    let whole = fs::read(bench.path()).unwrap();
    let mut scratched = whole.clone();
    scratched[4096 * 8..4096 * 12].fill(0xa5);
    fs::write(bench.path(), scratched).unwrap();
    assert!(matches!(refusal(&bench.path()).await, StoreError::Corrupt { .. }));
    fs::write(bench.path(), &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(refusal(&bench.path()).await, StoreError::Corrupt { .. }));
    fs::write(bench.path(), whole).unwrap();
    bench.second().await;
}

#[tokio::test]
async fn a_file_that_may_not_be_written_is_refused() {
    let bench = Bench::new().await;
    bench.store.close().await;
    fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o400)).unwrap();
    if fs::OpenOptions::new().write(true).open(bench.path()).is_ok() {
        skipped("runs as root, whom modes do not bind");
        return;
    }
    assert!(matches!(refusal(&bench.path()).await, StoreError::ReadOnly { .. }));
}

#[allow(clippy::print_stderr, reason = "a test that does not run says so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
