//! The effects journal: load record and entry, ask core, write what it says.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use samekey_core::claim::effects::{self, Begun, Call, CallEnd, Entry, Input, Noted};
use samekey_core::claim::{Context, Record, Refused};
use samekey_core::{Policy, Timestamp};

use super::claims::{Setting, changed, load};
use super::{Trouble, row};
use crate::store::{Effect, EffectEnd, EffectNoted, EffectStart, EffectTold, RecordId, StoreError};

pub(super) fn start(
    conn: &Connection,
    asked: &EffectStart,
    policy: &Policy,
    setting: &Setting<'_>,
) -> Result<EffectTold, Trouble> {
    let EffectStart { id, fence, name, call, input, provider_key } = asked;
    let Some(record) = load(conn, *id)? else { return Ok(EffectTold::Stale(None)) };
    let (entry, result) = read(conn, *id, name)?.unzip();
    // No row of the journal makes a holder or judges a lease.
    let context = Context { now: setting.now, policy, may_judge: false, new_holder: fence.holder };
    match effects::start(&record, entry.as_ref(), *fence, *call, *input, &context) {
        Ok(Begun::Go(None)) => Ok(EffectTold::Go),
        Ok(Begun::Go(Some(written))) => {
            write(conn, *id, &record, &written, setting)?;
            conn.prepare_cached(
                "INSERT INTO idempotency_effects (record, name, provider_key, input_hash, attempt, call, started_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET attempt = excluded.attempt, \
                 call = excluded.call, started_at = excluded.started_at, finished_at = NULL, ended = NULL",
            )?
            .execute(params![
                id.0,
                name,
                provider_key,
                input.map(|Input(hash)| hash),
                fence.attempt,
                call.0,
                setting.now.as_millis()
            ])?;
            Ok(EffectTold::Go)
        }
        Ok(Begun::Done) => Ok(EffectTold::Done(result.flatten().unwrap_or_default())),
        Ok(Begun::Unknown) => Ok(EffectTold::Unknown),
        Ok(Begun::OtherInput) => Ok(EffectTold::OtherInput),
        Err(Refused::Stale { state } | Refused::Nothing { state }) => Ok(EffectTold::Stale(Some(state))),
    }
}

pub(super) fn end(conn: &Connection, asked: &EffectEnd, setting: &Setting<'_>) -> Result<EffectNoted, Trouble> {
    let EffectEnd { id, fence, name, end, result } = asked;
    let Some(record) = load(conn, *id)? else { return Ok(EffectNoted::Stale(None)) };
    let (entry, kept) = read(conn, *id, name)?.unzip();
    let same_result = *end != CallEnd::Done || kept.flatten().as_ref() == Some(result);
    match effects::end(&record, entry.as_ref(), *fence, *end, same_result) {
        Ok(Noted::Same) => Ok(EffectNoted::Kept),
        Ok(Noted::NotStarted) => Ok(EffectNoted::NotStarted),
        Ok(Noted::Write(written)) => {
            write(conn, *id, &record, &written, setting)?;
            conn.prepare_cached(
                "UPDATE idempotency_effects SET finished_at = ?3, ended = ?4, result = ?5 WHERE record = ?1 AND name = ?2",
            )?
            .execute(params![
                id.0,
                name,
                setting.now.as_millis(),
                end.as_str(),
                (*end == CallEnd::Done).then_some(&result[..])
            ])?;
            Ok(EffectNoted::Kept)
        }
        Err(Refused::Stale { state } | Refused::Nothing { state }) => Ok(EffectNoted::Stale(Some(state))),
    }
}

fn write(
    conn: &Connection,
    id: RecordId,
    seen: &Record,
    written: &Record,
    setting: &Setting<'_>,
) -> Result<(), Trouble> {
    if row::update(conn, id, seen.revision, written, None)? { Ok(()) } else { Err(changed(setting.place)) }
}

fn read(conn: &Connection, id: RecordId, name: &str) -> Result<Option<(Entry, Option<Bytes>)>, Trouble> {
    let read = conn
        .prepare_cached(
            "SELECT attempt, call, input_hash, ended, result FROM idempotency_effects WHERE record = ?1 AND name = ?2",
        )?
        .query_row((id.0, name), |row| {
            let result: Option<Vec<u8>> = row.get(4)?;
            let ended: Option<String> = row.get(3)?;
            let entry = Entry {
                attempt: row.get(0)?,
                call: Call(row.get(1)?),
                input: row.get::<_, Option<[u8; 32]>>(2)?.map(Input),
                end: None,
            };
            Ok((entry, ended, result.map(Bytes::from)))
        })
        .optional()?;
    let Some((entry, ended, result)) = read else { return Ok(None) };
    Ok(Some((Entry { end: word(ended.as_deref(), id)?, ..entry }, result)))
}

fn word(ended: Option<&str>, id: RecordId) -> Result<Option<CallEnd>, Trouble> {
    let known = |word| {
        CallEnd::from_name(word).ok_or_else(|| {
            let what = format!("an effect of record {} holds ended {word:?}, which is not known here", id.0);
            Trouble::Item(StoreError::unreadable(what))
        })
    };
    ended.map(known).transpose()
}

/// All entries of a record, in the order in which they were called.
pub(super) fn of(conn: &Connection, id: RecordId) -> Result<Vec<Effect>, Trouble> {
    let mut statement = conn.prepare_cached(
        "SELECT name, provider_key, attempt, started_at, finished_at, ended FROM idempotency_effects \
         WHERE record = ?1 ORDER BY started_at, name",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut effects = Vec::new();
    while let Some(row) = rows.next()? {
        let ended: Option<String> = row.get(5)?;
        effects.push(Effect {
            name: row.get(0)?,
            provider_key: row.get(1)?,
            attempt: row.get(2)?,
            started_at: Timestamp::from_millis(row.get(3)?),
            finished_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
            end: word(ended.as_deref(), id)?,
        });
    }
    Ok(effects)
}

/// Whoever settled the record found out that nothing came of its open effects.
pub(super) fn close(conn: &Connection, id: RecordId, now: Timestamp) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE idempotency_effects SET ended = 'not_applied', finished_at = ?2 \
         WHERE record = ?1 AND coalesce(ended, 'unknown') = 'unknown'",
    )?
    .execute((id.0, now.as_millis()))
    .map(drop)
}

/// A tombstone has no journal.
pub(super) fn forget(conn: &Connection, id: RecordId) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM idempotency_effects WHERE record = ?1")?.execute([id.0]).map(drop)
}
