//! The trail of a record: what happened to it beyond a claim and its answer.

use samekey_core::Timestamp;
use samekey_core::claim::{Reason, Record, State};

use super::error::Trouble;
use super::pool::{Link, Speak};
use super::row::without_nul;
use crate::store::sqlite::row::signed;
use crate::store::{By, Note, RecordId, Step, StoreError};

/// Adds a step, if the write is one. The record's row holds the request that the step is about.
pub(super) async fn add(
    link: &impl Speak,
    id: RecordId,
    (before, after): (Option<&Record>, &Record),
    by: By,
    note: Option<&Note>,
    now: Timestamp,
) -> Result<(), Trouble> {
    if !Step::is_one(before, after, by) {
        return Ok(());
    }
    let said = |said: Option<&String>| said.map(|text| without_nul(text));
    link.execute(
        "INSERT INTO idempotency_trail (record, revision, at, attempt, state, reason, by, who, why, request_id) \
         SELECT id, $2, $3, $4, $5, $6, $7, $8, $9, request_id FROM idempotency_keys WHERE id = $1",
        &[
            &id.0,
            &signed(after.revision),
            &now.as_millis(),
            &i64::from(after.fence.attempt),
            &after.state.as_str(),
            &after.reason.map(Reason::as_str),
            &by.as_str(),
            &said(note.and_then(|note| note.who.as_ref())),
            &said(note.and_then(|note| note.why.as_ref())),
        ],
    )
    .await?;
    Ok(())
}

/// All steps, in their order.
pub(super) async fn of(link: &Link, id: RecordId) -> Result<Vec<Step>, Trouble> {
    let unreadable = |column: &str, word: &str| {
        let what = format!("the trail of record {} holds {column} {word:?}, which is not known here", id.0);
        Trouble::Item(StoreError::unreadable(what))
    };
    let rows = link
        .query(
            "SELECT revision, at, attempt, state, reason, by, who, why, request_id FROM idempotency_trail \
             WHERE record = $1 ORDER BY revision",
            &[&id.0],
        )
        .await?;
    let mut steps = Vec::with_capacity(rows.len());
    for row in &rows {
        let (state, by): (&str, &str) = (row.try_get(3)?, row.try_get(5)?);
        let reason: Option<&str> = row.try_get(4)?;
        let known = |word: &str| Reason::from_name(word).ok_or_else(|| unreadable("reason", word));
        steps.push(Step {
            revision: row.try_get::<_, i64>(0)?.unsigned_abs(),
            at: Timestamp::from_millis(row.try_get(1)?),
            attempt: u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default(),
            state: State::from_name(state).ok_or_else(|| unreadable("state", state))?,
            reason: reason.map(known).transpose()?,
            by: By::from_name(by).ok_or_else(|| unreadable("by", by))?,
            who: row.try_get(6)?,
            why: row.try_get(7)?,
            request_id: row.try_get(8)?,
        });
    }
    Ok(steps)
}

/// Nothing remains of a record that is forgotten.
pub(super) async fn forget(link: &impl Speak, id: RecordId) -> Result<(), Trouble> {
    link.execute("DELETE FROM idempotency_trail WHERE record = $1", &[&id.0]).await?;
    Ok(())
}
