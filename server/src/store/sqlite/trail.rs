//! The trail of a record: what happened to it beyond a claim and its answer.

use rusqlite::{Connection, params};
use samekey_core::Timestamp;
use samekey_core::claim::{Reason, Record, State};

use super::{Trouble, row};
use crate::store::{By, Note, RecordId, Step, StoreError};

/// Adds a step, if the write is one. The record's row holds the request that the step is about.
pub(super) fn add(
    conn: &Connection,
    id: RecordId,
    (before, after): (Option<&Record>, &Record),
    by: By,
    note: Option<&Note>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    if !Step::is_one(before, after, by) {
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT INTO idempotency_trail (record, revision, at, attempt, state, reason, by, who, why, request_id) \
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, request_id FROM idempotency_keys WHERE id = ?1",
    )?
    .execute(params![
        id.0,
        row::signed(after.revision),
        now.as_millis(),
        after.fence.attempt,
        after.state.as_str(),
        after.reason.map(Reason::as_str),
        by.as_str(),
        note.and_then(|note| note.who.as_deref()),
        note.and_then(|note| note.why.as_deref()),
    ])
    .map(drop)
}

/// All steps, in their order.
pub(super) fn of(conn: &Connection, id: RecordId) -> Result<Vec<Step>, Trouble> {
    let unreadable = |column: &str, word: &str| {
        let what = format!("the trail of record {} holds {column} {word:?}, which is not known here", id.0);
        Trouble::Item(StoreError::unreadable(what))
    };
    let mut statement = conn.prepare_cached(
        "SELECT revision, at, attempt, state, reason, by, who, why, request_id FROM idempotency_trail \
         WHERE record = ?1 ORDER BY revision",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        let (state, by): (String, String) = (row.get(3)?, row.get(5)?);
        let reason: Option<String> = row.get(4)?;
        let known = |word: String| Reason::from_name(&word).ok_or_else(|| unreadable("reason", &word));
        steps.push(Step {
            revision: row.get::<_, i64>(0)?.unsigned_abs(),
            at: Timestamp::from_millis(row.get(1)?),
            attempt: row.get(2)?,
            state: State::from_name(&state).ok_or_else(|| unreadable("state", &state))?,
            reason: reason.map(known).transpose()?,
            by: By::from_name(&by).ok_or_else(|| unreadable("by", &by))?,
            who: row.get(6)?,
            why: row.get(7)?,
            request_id: row.get(8)?,
        });
    }
    Ok(steps)
}

/// Nothing remains of a record that is forgotten.
pub(super) fn forget(conn: &Connection, id: RecordId) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM idempotency_trail WHERE record = ?1")?.execute([id.0]).map(drop)
}
