//! Backups: a copy of a store that other processes go on to use, and a store made of such a copy.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::backup::{Backup as Steps, StepResult};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use samekey_core::Timestamp;

use super::horizon::{self, Source};
use super::open;
use crate::store::error::place;
use crate::store::{Backup, Policies, Restored, StoreError};

/// Pages of one step, and the pause after it, in which the disk is everybody else's.
const STEP_PAGES: i32 = 256;
const PAUSE: Duration = Duration::from_millis(2);

/// How long another process may hold a lock. Writers do not stand in a reader's way.
const PATIENCE: Duration = Duration::from_secs(10);

/// Copies the store at `from` into the new file `to`.
pub(in crate::store) fn backup(from: &Path, to: &Path, now: Timestamp) -> Result<Backup, StoreError> {
    refuse_existing(to)?;
    let part = Part::beside(to)?;
    let conn = copy(from, &part)?;
    let of = |error| StoreError::sqlite(&part.place, error);
    horizon::note(&conn, "backup_at", now).map_err(of)?;
    let records = count(&conn).map_err(of)?;
    drop(conn);
    let bytes = part.keep(to)?;
    Ok(Backup { records, bytes })
}

/// Makes the new store `to` of a backup: what the store it was taken of did since is unknown from now on.
pub(in crate::store) fn restore(
    from: &Path,
    to: &Path,
    now: Timestamp,
    policies: &Policies,
) -> Result<Restored, StoreError> {
    refuse_existing(to)?;
    open::refuse_network(open::directory_of(to), &place(to))?;
    let part = Part::beside(to)?;
    let mut conn = copy(from, &part)?;
    open::migrate(&mut conn, &part.place)?;
    let of = |error| StoreError::sqlite(&part.place, error);
    let taken_at = horizon::noted(&conn, "backup_at").map_err(of)?;
    let seen = taken_at.max(horizon::noted(&conn, "passed").map_err(of)?);
    if seen.is_some_and(|seen| now < seen) {
        return Err(StoreError::misuse(
            "this machine's clock shows a time before the backup was made; set the clock, then restore",
        ));
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
    let uncertain = horizon::set(&tx, &part.place, Source::Restore, now, now, policies)?;
    tx.commit().map_err(of)?;
    let records = count(&conn).map_err(of)?;
    drop(conn);
    part.keep(to)?;
    Ok(Restored { records, uncertain, taken_at, horizon: now })
}

/// A copy that is sound, on a connection of its own, in one file.
fn copy(from: &Path, part: &Part) -> Result<Connection, StoreError> {
    let source_place = place(from);
    let of_source = |error| StoreError::sqlite(&source_place, error);
    let source = open::store_reader(from, &source_place, PATIENCE)?;
    // One snapshot for all steps: without it, a writer's next commit would begin the copy anew.
    source.execute_batch("BEGIN").map_err(of_source)?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(of_source)?;

    let of = |error| StoreError::sqlite(&part.place, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(&part.path, flags).map_err(of)?;
    // A copy that is not whole is thrown away, so only its end has to be durable.
    conn.pragma_update(None, "synchronous", "OFF").map_err(of)?;
    let steps = Steps::new(&source, &mut conn).map_err(of)?;
    loop {
        match steps.step(STEP_PAGES).map_err(of)? {
            StepResult::Done => break,
            StepResult::More => std::thread::sleep(PAUSE),
            // Another process has its turn; the next step goes on.
            _ => std::thread::sleep(PAUSE * 10),
        }
    }
    drop(steps);
    // One file, that can be copied as one.
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0)).map_err(of)?;
    if mode != "delete" {
        return Err(StoreError::backend(&part.place, format!("its journal mode stays {mode:?}")));
    }
    let said: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(of)?;
    if said != "ok" {
        return Err(StoreError::Corrupt { place: source_place, why: said.into() });
    }
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

fn count(conn: &Connection) -> rusqlite::Result<u64> {
    conn.query_row("SELECT count(*) FROM idempotency_keys", [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Nothing is overwritten: not a store, and not what a store left beside it.
fn refuse_existing(to: &Path) -> Result<(), StoreError> {
    for file in [to.to_owned(), open::beside(to, "-wal"), open::beside(to, "-journal")] {
        if fs::symlink_metadata(&file).is_ok() {
            return Err(StoreError::Exists { place: place(&file) });
        }
    }
    Ok(())
}

/// A file that is not whole yet. It goes with this, unless it is kept.
struct Part {
    path: PathBuf,
    place: Arc<str>,
}

impl Part {
    /// In the same directory, so that it gets its name in one step.
    fn beside(to: &Path) -> Result<Self, StoreError> {
        if !open::directory_of(to).is_dir() {
            return Err(StoreError::NoDirectory { place: place(to) });
        }
        let path = open::beside(to, &format!(".part-{}", std::process::id()));
        open::make(&path, &place(&path))?;
        open::narrow(&path)?;
        Ok(Self { place: place(&path), path })
    }

    /// Gives it its name once it is durable. Says how large it is.
    fn keep(self, to: &Path) -> Result<u64, StoreError> {
        let of = |error| StoreError::io(&self.path, error);
        let file = File::open(&self.path).map_err(of)?;
        file.sync_all().map_err(of)?;
        let bytes = file.metadata().map_err(of)?.len();
        match renameat_with(CWD, &self.path, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(StoreError::Exists { place: place(to) }),
            // File systems that cannot refuse: it was looked for before, and nobody else makes a file of this name.
            Err(_) => fs::rename(&self.path, to).map_err(of)?,
        }
        let directory = File::open(open::directory_of(to)).map_err(of)?;
        directory.sync_all().map_err(of)?;
        Ok(bytes)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        for file in [self.path.clone(), open::beside(&self.path, "-journal")] {
            // Gone already if it was kept.
            let _ = fs::remove_file(file);
        }
    }
}
