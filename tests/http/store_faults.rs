//! A store that cannot be opened says so at the start; one that fails later lets nothing run.

use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, prlimit};
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;
use support::patience::within;
use support::{Answer, Gate, Reply, Request, Serve, Server, Upstream};

/// A write past the limit fails with EFBIG instead of ending the process.
const IGNORING_XFSZ: [&str; 4] = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];

fn limit_files(samekey: &Server, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(samekey.pid()), Resource::Fsize, limit).expect("limit the size of its files");
}

#[track_caller]
fn unavailable(answer: &Answer) {
    let code = answer.problem().code;
    assert!(code == "store_unavailable" || code == "overloaded", "{code}");
    answer.refuses(503, &code, "retry_same_key", "unknown");
    assert!(answer.retry_after().is_some(), "a Retry-After");
}

#[tokio::test]
async fn a_disk_that_refuses_writes_lets_nothing_run_and_recovers_by_itself() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).through(&IGNORING_XFSZ).start().await;
    let first = samekey.send(&Request::order("stored")).await;
    limit_files(&samekey, Some(1));
    for _ in 0..3 {
        unavailable(&samekey.send(&Request::order("k")).await);
    }
    samekey.send(&Request::order("stored")).await.replays(&first);
    assert_eq!(upstream.effects("k"), 0);
    assert_ne!(samekey.admin("/readyz").await.status, 200, "not ready without a store that can be written");
    assert_eq!(samekey.admin("/healthz").await.status, 200, "alive all the same");
    limit_files(&samekey, None);
    let ran = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(!ran.replayed());
    assert_eq!(upstream.effects("k"), 1);
    samekey.until_ready().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_stored_yet_is_held_and_stored_later() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"held"}"#).gated(&gate));
    let samekey = Serve::before(&upstream).through(&IGNORING_XFSZ).start().await;
    let first = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    limit_files(&samekey, Some(1));
    gate.open();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!first.is_finished(), "no answer goes out before it is stored");
    limit_files(&samekey, None);
    let first = first.await.expect("the first answer");
    first.ran(201, "completed", 1);
    samekey.send(&Request::order("k")).await.replays(&first);
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_full_disk_lets_nothing_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(_mounted) = Tmpfs::mount(folder.path(), "2m") else { return };
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--min-free", "0B").store_at(&folder.path().join("samekey.db"));
    let samekey = serve.start().await;
    let first = samekey.send(&Request::order("stored")).await;
    first.ran(201, "completed", 1);
    let filler = folder.path().join("filler");
    let mut size = 1024 * 1024;
    let mut file = std::fs::File::create(&filler).expect("a filler");
    while size > 0 {
        if std::io::Write::write_all(&mut file, &vec![0; size]).is_err() {
            size /= 4;
        }
    }
    // Space that SQLite already had may still serve a few; none of the refused ones may have run.
    let mut refused = 0;
    for n in 0..60 {
        let key = format!("full-{n}");
        let answer = samekey.send(&Request::order(&key)).await;
        if answer.status == 503 {
            unavailable(&answer);
            assert_eq!(upstream.effects(&key), 0, "{key}");
            refused += 1;
        }
    }
    assert!(refused > 0, "the disk is full");
    samekey.send(&Request::order("stored")).await.replays(&first);
    std::fs::remove_file(&filler).expect("room again");
    drop(file);
    samekey.until(&Request::order("full-59"), |answer| answer.status == 201).await;
    assert_eq!(upstream.effects("full-59"), 1);
    drop(samekey);
}

struct Tmpfs<'a>(&'a std::path::Path);

impl<'a> Tmpfs<'a> {
    #[expect(clippy::print_stderr, reason = "a test that does not run says so")]
    fn mount(at: &'a std::path::Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).status();
        if mount.is_ok_and(|status| status.success()) {
            return Some(Self(at));
        }
        eprintln!("skipped: mounting a small tmpfs needs root");
        None
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[tokio::test]
async fn under_min_free_new_claims_are_refused_and_replays_go_on() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let samekey = serve.start().await;
    let first = samekey.send(&Request::order("stored")).await;
    samekey.stop().await;
    let samekey = serve.set("--min-free", "1000TiB").start().await;
    unavailable(&samekey.send(&Request::order("k")).await);
    samekey.send(&Request::order("stored")).await.replays(&first);
    assert_eq!(upstream.effects("k"), 0);
}

#[tokio::test]
async fn somebody_elses_write_lock_delays_or_refuses_and_never_doubles() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let samekey = serve.start().await;
    let first = samekey.send(&Request::order("stored")).await;
    let other = Connection::open(serve.store()).expect("open the file beside the server");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let retry = Request::order("stored");
    within(Duration::from_secs(2), "a replay needs no write lock", samekey.send(&retry)).await.replays(&first);
    let blocked = samekey.spawn(&Request::order("k"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(upstream.effects("k"), 0, "no claim, no effect");
    other.execute_batch("ROLLBACK").expect("give the lock back");
    let answer = blocked.await.expect("an answer");
    if answer.status == 503 {
        unavailable(&answer);
    }
    let ran = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert_eq!((ran.status, upstream.effects("k")), (201, 1));
}

/// Between any two steps of a command somebody else takes the write lock, for longer than a lease, so that the claim is
/// not renewed meanwhile. Another process may call it lapsed then, and no more than that.
#[tokio::test]
async fn a_lock_held_for_longer_than_a_lease_never_doubles() {
    let upstream = Upstream::start().await;
    let gates: Vec<Gate> = (0..3).map(|_| Gate::new()).collect();
    upstream.script({
        let gates = gates.clone();
        move |received| {
            let step: usize = received.key().and_then(|key| key.strip_prefix("k-")?.parse().ok()).expect("a step");
            Reply::json(201, &format!(r#"{{"id":"o-{}"}}"#, received.number)).gated(&gates[step])
        }
    });
    let serve = Serve::before(&upstream).set("--lease", "1s").set("--timeout", "20s").waits("0s", "20s");
    let (one, two) = (serve.start().await, serve.start().await);
    let other = Connection::open(serve.store()).expect("open the file beside the servers");
    let longer = Duration::from_millis(1500);
    // Before its claim, while it runs, when it ends.
    for (step, gate) in gates.iter().enumerate() {
        let (key, lock) = (format!("k-{step}"), || other.execute_batch("BEGIN IMMEDIATE").expect("the write lock"));
        if step == 0 {
            lock();
            gate.open();
        }
        let asked = one.spawn(&Request::order(&key));
        if step > 0 {
            upstream.ledger().arrived(step + 1).await;
            lock();
        }
        if step == 2 {
            gate.open();
        }
        tokio::time::sleep(longer).await;
        assert!(step == 1 || !asked.is_finished(), "nothing was written, so nothing was said");
        other.execute_batch("ROLLBACK").expect("give the lock back");
        if step > 0 {
            let meanwhile = two.send(&Request::order(&key)).await;
            let code = if meanwhile.replayed() { String::new() } else { meanwhile.problem().code };
            let honest = ["", "operation_in_progress", "outcome_uncertain"].contains(&code.as_str());
            assert!(honest, "{step}: {meanwhile:?}");
        }
        gate.open();
        let first = asked.await.expect("an answer");
        first.ran(201, "completed", 1);
        two.send(&Request::order(&key)).await.replays(&first);
        assert_eq!(upstream.effects(&key), 1);
    }
}

#[tokio::test]
async fn a_corrupt_file_is_refused_at_the_start_and_left_as_it_is() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let garbage = b"this is not a database, but somebody's notes ".repeat(500);
    std::fs::write(serve.store(), &garbage).expect("write the file");
    let (_, said) = serve.refused().await;
    assert!(said.contains("samekey.db"), "it names the file: {said}");
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(std::fs::read(serve.store()).expect("the file"), garbage);
}

#[tokio::test]
async fn somebody_elses_database_is_refused_and_left_as_it_is() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let shop = Connection::open(serve.store()).expect("a database");
    shop.execute_batch("CREATE TABLE orders (id INTEGER); PRAGMA user_version = 3").expect("of a shop");
    let (_, said) = serve.refused().await;
    assert!(said.contains("samekey.db") && !said.contains("panicked"), "{said}");
    let tables: i64 = shop.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).expect("its tables");
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_name() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    serve.start().await.stop().await;
    let file = Connection::open(serve.store()).expect("the store");
    file.execute_batch("PRAGMA user_version = 9999").expect("from the future");
    drop(file);
    let (_, said) = serve.refused().await;
    assert!(said.contains("newer") && said.contains("samekey.db"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[tokio::test]
async fn a_folder_or_a_missing_folder_is_no_store() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    std::fs::create_dir(serve.store()).expect("a folder in its place");
    let (_, said) = serve.refused().await;
    assert!(said.contains("samekey.db") && !said.contains("panicked"), "{said}");
    let nowhere = serve.folder().join("missing").join("samekey.db");
    let (_, said) = serve.store_at(&nowhere).refused().await;
    assert!(said.contains("missing") && !said.contains("panicked"), "{said}");
}

#[tokio::test]
async fn a_read_only_file_is_refused_at_the_start() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    serve.start().await.stop().await;
    let (folder, store) = (serve.folder(), serve.store());
    let serve = if rustix::process::getuid().is_root() {
        // Permissions do not bind root: the server runs as a user who may read and not write.
        chown(folder, Some(0), Some(65_534)).expect("chown");
        chown(&store, Some(0), Some(65_534)).expect("chown");
        serve.clone().user(65_534)
    } else {
        serve.clone()
    };
    let mode = std::fs::Permissions::from_mode;
    std::fs::set_permissions(&store, mode(0o440)).expect("read-only");
    std::fs::set_permissions(folder, mode(0o550)).expect("read-only");
    let refused = serve.refused().await;
    std::fs::set_permissions(folder, mode(0o750)).expect("to be removed");
    assert!(refused.1.contains("samekey.db") && !refused.1.contains("panicked"), "{}", refused.1);
}
