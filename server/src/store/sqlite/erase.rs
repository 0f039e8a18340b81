//! Erasing an actor: what is stored of them goes, that their keys were used stays.
//!
//! A tombstone protects a key only while the same caller still meets it, so the scope must go on matching. In place
//! of the actor's id it then holds a keyed hash of it. Whoever comes with the id finds the record; whoever has the
//! file does not find the id.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior};
use samekey_core::claim::Event;
use samekey_core::{Actor, Policy, Timestamp};

use super::claims::{self, Setting};
use super::known::Known;
use super::{Trouble, moved, open};
use crate::store::error::place;
use crate::store::{Change, Erased, Note, RecordId, Secret, StoreError};

/// Records of one transaction, and the pause after it, in which the write lock is everybody else's.
const BATCH: usize = 64;
const PAUSE: Duration = Duration::from_millis(2);
/// Records of one look: the actor stands last in the index, so all are looked at.
const LOOK: i64 = 4096;

/// Pages that are given back in one transaction.
const PAGES: u32 = 64;

/// How long readers of other processes are waited for, so that the WAL can be emptied.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a record says in place of the actor's id. No id is stored like this: one that begins with `*` gets a second.
pub(in crate::store) fn pseudonym(secret: &[u8; 32], actor: &Actor) -> String {
    let hash = Secret::new(secret).keyed_hash("erased", &[actor.stored().as_bytes()]);
    format!("*erased:{}", crate::hex(&hash[..16]))
}

/// The secret of the pseudonyms; there is none until somebody was erased.
pub(super) fn secret(conn: &Connection) -> rusqlite::Result<Option<[u8; 32]>> {
    conn.prepare_cached("SELECT value FROM samekey_meta WHERE name = 'erased'")?
        .query_row([], |row| row.get(0))
        .optional()
}

/// On a connection of its own. Other processes may go on.
pub(crate) fn erase(
    conn: &mut Connection,
    place: &Arc<str>,
    actor: &Actor,
    now: Timestamp,
) -> Result<Erased, StoreError> {
    let of = |error| StoreError::sqlite(place, error);
    // What is overwritten or freed from here on leaves no trace on its page.
    conn.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).map_err(of)?;
    let name = pseudonym(&make_secret(conn, place)?, actor);
    let mut erased = Erased::default();
    let mut last = 0;
    loop {
        let (ids, end) = records(conn, actor, last).map_err(of)?;
        for batch in ids.chunks(BATCH) {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
            for id in batch {
                match one(&tx, place, RecordId(*id), actor, &name, now) {
                    Ok(true) => erased.records += 1,
                    Ok(false) => erased.running += 1,
                    Err(Trouble::Sqlite(error)) => return Err(of(error)),
                    Err(Trouble::Item(error)) => return Err(error),
                }
            }
            tx.commit().map_err(of)?;
            std::thread::sleep(PAUSE);
        }
        let Some(end) = end else { break };
        last = end;
    }
    erased.scrubbed = scrub(conn).map_err(of)?;
    Ok(erased)
}

/// In a transaction of its own, so that every process looks for pseudonyms before the first record has one.
fn make_secret(conn: &mut Connection, place: &Arc<str>) -> Result<[u8; 32], StoreError> {
    let of = |error| StoreError::sqlite(place, error);
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|error| StoreError::backend(place, format!("no random numbers: {error}")))?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
    tx.execute("INSERT INTO samekey_meta VALUES ('erased', ?1) ON CONFLICT DO NOTHING", [fresh]).map_err(of)?;
    let kept = secret(&tx).map_err(of)?;
    tx.commit().map_err(of)?;
    kept.ok_or_else(|| StoreError::backend(place, "the secret of erased actors could not be read back"))
}

/// The actor's records after this one, and where to go on.
fn records(conn: &Connection, actor: &Actor, after: i64) -> rusqlite::Result<(Vec<i64>, Option<i64>)> {
    let end: Option<i64> = conn
        .prepare_cached("SELECT max(id) FROM (SELECT id FROM idempotency_keys WHERE id > ?1 ORDER BY id LIMIT ?2)")?
        .query_row((after, LOOK), |row| row.get(0))?;
    let Some(end) = end else { return Ok((Vec::new(), None)) };
    let ids = conn
        .prepare_cached("SELECT id FROM idempotency_keys WHERE id > ?1 AND id <= ?2 AND actor_id = ?3 ORDER BY id")?
        .query_map((after, end, actor.stored()), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok((ids, Some(end)))
}

/// `false`: it still runs, and its caller waits for the answer.
fn one(
    conn: &Connection,
    place: &Arc<str>,
    id: RecordId,
    actor: &Actor,
    name: &str,
    now: Timestamp,
) -> Result<bool, Trouble> {
    // The answer is over now; what becomes of a record whose answer is over, core knows.
    conn.prepare_cached(
        "UPDATE idempotency_keys SET expires_at = min(expires_at, ?2) \
         WHERE id = ?1 AND state IN ('completed', 'failed')",
    )?
    .execute((id.0, now.as_millis()))?;
    // Nothing is forgotten here: that the key was used is what stays.
    let policy = Arc::new(Policy::new("erased").remember(Duration::MAX));
    let event = Event::Sweep { key_time: None, forget_limit: Timestamp::from_millis(i64::MIN) };
    let change = Change { id, policy, event, response: None, note: Note::default() };
    let mut known = Known::default();
    let created_at = now;
    let moved = Vec::new();
    let mut setting = Setting { place, now, latest: now, may_judge: &|_| false, created_at, known: &mut known, moved };
    claims::apply(conn, &change, &mut setting)?;
    moved::count(conn, &setting.moved)?;
    // Somebody else may have claimed it meanwhile, or erased it.
    let written = conn
        .prepare_cached(
            "UPDATE idempotency_keys SET actor_id = ?2, result_id = NULL, request_id = NULL, revision = revision + 1, \
             response_headers = NULL, response_body = NULL \
             WHERE id = ?1 AND actor_id = ?3 AND state <> 'in_progress'",
        )?
        .execute((id.0, name, actor.stored()))?;
    if written == 0 {
        return Ok(false);
    }
    conn.prepare_cached("UPDATE idempotency_trail SET why = NULL, request_id = NULL WHERE record = ?1")?
        .execute([id.0])?;
    Ok(true)
}

/// Empties what deleted records may have left behind: pages that are free, and the WAL. Says whether that went.
fn scrub(conn: &Connection) -> rusqlite::Result<bool> {
    let free = || conn.pragma_query_value(None, "freelist_count", |row| row.get::<_, u32>(0));
    let mut left = free()?;
    while left > 0 {
        conn.execute_batch(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
        let now = free()?;
        if now >= left {
            // A file that was made without incremental vacuum.
            break;
        }
        left = now;
        std::thread::sleep(PAUSE);
    }
    let began = Instant::now();
    loop {
        let truncated = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        match truncated {
            Ok(0) => return Ok(left == 0),
            Ok(_) => {}
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
            Err(error) => return Err(error),
        }
        if began.elapsed() > PATIENCE {
            return Ok(false);
        }
        std::thread::sleep(PAUSE * 10);
    }
}

/// The same in the store's file.
pub(in crate::store) fn erase_in(
    path: &Path,
    busy_timeout: Duration,
    actor: &Actor,
    now: Timestamp,
) -> Result<Erased, StoreError> {
    let place = &place(path);
    let of = |error| StoreError::sqlite(place, error);
    let look = open::store_reader(path, place, busy_timeout)?;
    drop(look);
    let mut conn = open::beside_the_writer(path, busy_timeout).map_err(of)?;
    conn.set_prepared_statement_cache_capacity(64);
    erase(&mut conn, place, actor, now)
}
