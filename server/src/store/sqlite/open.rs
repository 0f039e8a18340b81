//! Opening a file: what is refused, to whom it belongs, which schema it has.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use rusqlite_migration::{M, Migrations};
use samekey_core::Timestamp;

use crate::store::StoreError;
use crate::store::error::place;

/// `SmKy`, as in the first migration.
const APPLICATION_ID: i32 = 0x536d_4b79;

const MIGRATIONS: &[M<'static>] = &[M::up(concat!(
    // 'SmKy': tells a samekey store from the files of other programs. An application's own database keeps its own.
    "PRAGMA application_id = 0x536d4b79;\n",
    include_str!("migrations/0001_records.sql"),
    include_str!("migrations/0001_counts.sql"),
))];

/// The newest schema that is known here.
pub(super) const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// Files up to this size are checked as a whole; that takes well under a second.
const WHOLE_CHECK_BYTES: u64 = 32 << 20;

/// Where the WAL file is cut when it starts anew. Overwriting it is cheaper than growing it, so it is kept.
const WAL_KEPT_BYTES: i64 = 64 << 20;

/// How often another process that makes the same file at the same moment is waited for.
const RACES: u32 = 250;

/// What the store remembers of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Birth {
    pub(super) created_at: Timestamp,
    pub(super) secret: [u8; 32],
}

/// Where `file` stands.
pub(super) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The connection that writes.
pub(super) fn writer(path: &Path, busy_timeout: Duration, now: Timestamp) -> Result<(Connection, Birth), StoreError> {
    let place = place(path);
    if !directory_of(path).is_dir() {
        return Err(StoreError::NoDirectory { place });
    }
    refuse_network(directory_of(path), &place)?;
    make(path, &place)?;
    // What is refused is only ever read: even closing a writing connection could move another program's WAL.
    let look = reader(path, busy_timeout).map_err(|error| StoreError::sqlite(&place, error))?;
    let version = refuse_foreign(&look, &place)?;
    if version > SCHEMA {
        return Err(StoreError::NewerSchema { place, found: version, known: SCHEMA });
    }
    refuse_damaged(&look, path, &place)?;
    drop(look);
    narrow(path)?;
    let of = |error| StoreError::sqlite(&place, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(of)?;
    conn.busy_timeout(busy_timeout).map_err(of)?;
    conn.set_prepared_statement_cache_capacity(64);
    set_up(&conn, &place)?;
    migrate(&mut conn, &place)?;
    let birth = birth(&mut conn, now, &place)?;
    Ok((conn, birth))
}

/// A connection that only reads.
pub(super) fn reader(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// A connection for a single piece of work that writes. It leaves the WAL to the writer.
pub(super) fn beside_the_writer(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(busy_timeout)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(conn)
}

/// Reads a store that is there. What is none is not touched.
pub(super) fn store_reader(path: &Path, place: &Arc<str>, busy_timeout: Duration) -> Result<Connection, StoreError> {
    if !path.is_file() {
        return Err(StoreError::NoStore { place: Arc::clone(place) });
    }
    let conn = reader(path, busy_timeout).map_err(|error| StoreError::sqlite(place, error))?;
    match refuse_foreign(&conn, place)? {
        0 => Err(StoreError::NoStore { place: Arc::clone(place) }),
        version if version > SCHEMA => {
            Err(StoreError::NewerSchema { place: Arc::clone(place), found: version, known: SCHEMA })
        }
        _ => Ok(conn),
    }
}

/// When the store was made.
pub(super) fn created_at(conn: &Connection) -> rusqlite::Result<Timestamp> {
    conn.query_row("SELECT value FROM samekey_meta WHERE name = 'created_at'", [], |row| row.get(0))
        .map(Timestamp::from_millis)
}

/// SQLite's locks do not hold there, and its shared memory is not shared.
pub(super) fn refuse_network(directory: &Path, place: &Arc<str>) -> Result<(), StoreError> {
    let Ok(seen) = rustix::fs::statfs(directory) else { return Ok(()) };
    // linux/magic.h; the field's type differs between targets, the low 32 bits do not.
    let kind = match seen.f_type as u32 {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x5346_414f => "AFS",
        _ => return Ok(()),
    };
    Err(StoreError::NetworkFileSystem { place: Arc::clone(place), kind })
}

/// Makes the file before SQLite does, which would make it readable for everybody.
pub(super) fn make(path: &Path, place: &Arc<str>) -> Result<(), StoreError> {
    if fs::metadata(path).is_ok_and(|seen| !seen.is_file()) {
        return Err(StoreError::NotAFile { place: Arc::clone(place) });
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map(drop).map_err(|error| StoreError::io(path, error))
}

/// Takes the files from everybody but their owner. SQLite gives `-wal` and `-shm` the mode of the file.
pub(super) fn narrow(path: &Path) -> Result<(), StoreError> {
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        if fs::metadata(&file).is_ok_and(|seen| seen.permissions().mode() & 0o077 != 0) {
            fs::set_permissions(&file, Permissions::from_mode(0o600)).map_err(|error| StoreError::io(&file, error))?;
        }
    }
    Ok(())
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Only an empty file or one of ours is written into. Returns its schema.
pub(super) fn refuse_foreign(conn: &Connection, place: &Arc<str>) -> Result<u32, StoreError> {
    let foreign = |why: &str| StoreError::ForeignFile { place: Arc::clone(place), why: why.into() };
    // One snapshot: another process may be making this very file.
    let _snapshot = conn.unchecked_transaction().map_err(|error| StoreError::sqlite(place, error))?;
    let id: i32 = match conn.pragma_query_value(None, "application_id", |row| row.get(0)) {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            return Err(foreign("it is no SQLite database"));
        }
        seen => seen.map_err(|error| StoreError::sqlite(place, error))?,
    };
    let of = |error| StoreError::sqlite(place, error);
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(of)?;
    if id == APPLICATION_ID {
        return Ok(u32::try_from(version).unwrap_or(u32::MAX));
    }
    let empty = !conn.prepare("SELECT 1 FROM sqlite_schema").and_then(|mut seen| seen.exists([])).map_err(of)?;
    match (id, version, empty) {
        (0, 0, true) => Ok(0),
        (0, ..) => Err(foreign("it is another program's SQLite database")),
        _ => Err(foreign(&format!("it is a SQLite database with application_id {id:#x}"))),
    }
}

fn refuse_damaged(conn: &Connection, path: &Path, place: &Arc<str>) -> Result<(), StoreError> {
    let of = |error| StoreError::sqlite(place, error);
    let size = fs::metadata(path).map_or(0, |seen| seen.len());
    if size <= WHOLE_CHECK_BYTES {
        let said: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(of)?;
        if said != "ok" {
            return Err(StoreError::Corrupt { place: Arc::clone(place), why: said.into() });
        }
    }
    Ok(())
}

fn set_up(conn: &Connection, place: &Arc<str>) -> Result<(), StoreError> {
    let of = |error| StoreError::sqlite(place, error);
    // Only a file without a table takes this; an older one is made anew by VACUUM, as the documentation says.
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(of)?;
    let mut races = 0;
    let mode: String = loop {
        // Changing the mode needs the file alone, and no busy handler waits for that.
        match conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(of) {
            Err(StoreError::Busy { .. }) if races < RACES => {
                races += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            said => break said?,
        }
    };
    if mode != "wal" {
        let why = format!("its journal mode stays {mode:?}, WAL is needed");
        return Err(StoreError::backend(place, why));
    }
    // FULL: an acknowledged claim survives power loss. Checkpoints are the writer's, between batches.
    conn.pragma_update(None, "synchronous", "FULL").map_err(of)?;
    conn.pragma_update(None, "foreign_keys", true).map_err(of)?;
    // What is deleted is overwritten where that costs no further page; erasing somebody sees to the rest.
    conn.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(())).map_err(of)?;
    conn.pragma_update(None, "wal_autocheckpoint", 0).map_err(of)?;
    conn.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES).map_err(of)
}

pub(super) fn migrate(conn: &mut Connection, place: &Arc<str>) -> Result<(), StoreError> {
    let migrations = Migrations::from_slice(MIGRATIONS);
    let mut races = 0;
    loop {
        let error = match migrations.to_latest(conn) {
            Ok(()) => return Ok(()),
            Err(rusqlite_migration::Error::RusqliteError { err, .. }) => StoreError::sqlite(place, err),
            Err(error) => StoreError::backend(place, error),
        };
        // Another process may be making the same file: whoever comes second finds its tables, or its lock.
        let version: i64 = conn
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(|error| StoreError::sqlite(place, error))?;
        let raced = version >= i64::from(SCHEMA) || matches!(error, StoreError::Busy { .. });
        if !raced || races == RACES {
            return Err(error);
        }
        races += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads the store's own facts, or draws them in a store that has just been made.
fn birth(conn: &mut Connection, now: Timestamp, place: &Arc<str>) -> Result<Birth, StoreError> {
    let of = |error| StoreError::sqlite(place, error);
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| StoreError::backend(place, format!("no random numbers: {error}")))?;
    if let Some(birth) = read_birth(conn).map_err(of)? {
        return Ok(birth);
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
    tx.execute("INSERT INTO samekey_meta VALUES ('created_at', ?1) ON CONFLICT DO NOTHING", [now.as_millis()])
        .map_err(of)?;
    tx.execute("INSERT INTO samekey_meta VALUES ('secret', ?1) ON CONFLICT DO NOTHING", [secret]).map_err(of)?;
    let birth = read_birth(&tx).map_err(of)?;
    tx.commit().map_err(of)?;
    birth.ok_or_else(|| StoreError::backend(place, "the facts of the store could not be read back"))
}

fn read_birth(conn: &Connection) -> rusqlite::Result<Option<Birth>> {
    let sql = "SELECT (SELECT value FROM samekey_meta WHERE name = 'created_at'), value FROM samekey_meta WHERE name = 'secret'";
    conn.query_row(sql, [], |row| Ok(Birth { created_at: Timestamp::from_millis(row.get(0)?), secret: row.get(1)? }))
        .optional()
}
