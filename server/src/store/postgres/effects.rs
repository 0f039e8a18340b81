//! The effects journal: load record and entry, ask core, write what it says.

use bytes::Bytes;
use samekey_core::claim::effects::{self, Begun, Call, CallEnd, Entry, Input, Noted};
use samekey_core::claim::{Context, Record, Refused};
use samekey_core::{Policy, Timestamp};

use super::database::Database;
use super::error::Trouble;
use super::events::load_one;
use super::pool::{Link, Speak};
use super::row::Updates;
use crate::store::{Effect, EffectEnd, EffectNoted, EffectStart, EffectTold, RecordId, StoreError};

pub(super) async fn start(
    link: &Link,
    asked: &EffectStart,
    policy: &Policy,
    db: &Database,
) -> Result<EffectTold, Trouble> {
    let EffectStart { id, fence, name, call, input, provider_key } = asked;
    let (record, now) = load_one(link, *id, db).await?;
    let Some(record) = record else { return done(link, EffectTold::Stale(None)).await };
    let (entry, result) = read(link, *id, name).await?.unzip();
    // No row of the journal makes a holder or judges a lease.
    let context = Context { now, policy, may_judge: false, new_holder: fence.holder };
    let told = match effects::start(&record, entry.as_ref(), *fence, *call, *input, &context) {
        Ok(Begun::Go(None)) => EffectTold::Go,
        Ok(Begun::Go(Some(written))) => {
            write(link, *id, &record, &written, db).await?;
            link.execute(
                "INSERT INTO idempotency_effects (record, name, provider_key, input_hash, attempt, call, started_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (record, name) DO UPDATE SET \
                 attempt = excluded.attempt, call = excluded.call, started_at = excluded.started_at, \
                 finished_at = NULL, ended = NULL",
                &[
                    &id.0,
                    name,
                    provider_key,
                    &input.as_ref().map(|Input(hash)| &hash[..]),
                    &i64::from(fence.attempt),
                    &&call.0[..],
                    &now.as_millis(),
                ],
            )
            .await?;
            EffectTold::Go
        }
        Ok(Begun::Done) => EffectTold::Done(result.flatten().unwrap_or_default()),
        Ok(Begun::Unknown) => EffectTold::Unknown,
        Ok(Begun::OtherInput) => EffectTold::OtherInput,
        Err(Refused::Stale { state } | Refused::Nothing { state }) => EffectTold::Stale(Some(state)),
    };
    done(link, told).await
}

pub(super) async fn end(link: &Link, asked: &EffectEnd, db: &Database) -> Result<EffectNoted, Trouble> {
    let EffectEnd { id, fence, name, end, result } = asked;
    let (record, now) = load_one(link, *id, db).await?;
    let Some(record) = record else { return done(link, EffectNoted::Stale(None)).await };
    let (entry, kept) = read(link, *id, name).await?.unzip();
    let same_result = *end != CallEnd::Done || kept.flatten().as_ref() == Some(result);
    let noted = match effects::end(&record, entry.as_ref(), *fence, *end, same_result) {
        Ok(Noted::Same) => EffectNoted::Kept,
        Ok(Noted::NotStarted) => EffectNoted::NotStarted,
        Ok(Noted::Write(written)) => {
            write(link, *id, &record, &written, db).await?;
            link.execute(
                "UPDATE idempotency_effects SET finished_at = $3, ended = $4, result = $5 \
                 WHERE record = $1 AND name = $2",
                &[&id.0, name, &now.as_millis(), &end.as_str(), &(*end == CallEnd::Done).then_some(&result[..])],
            )
            .await?;
            EffectNoted::Kept
        }
        Err(Refused::Stale { state } | Refused::Nothing { state }) => EffectNoted::Stale(Some(state)),
    };
    done(link, noted).await
}

async fn done<T>(link: &Link, told: T) -> Result<T, Trouble> {
    link.batch_execute("COMMIT").await?;
    Ok(told)
}

async fn write(link: &Link, id: RecordId, seen: &Record, written: &Record, db: &Database) -> Result<(), Trouble> {
    match Updates::one(id, seen.revision, written, None).write(link).await? {
        1 => Ok(()),
        _ => Err(Trouble::Item(StoreError::backend(&db.place, "a record changed under its lock"))),
    }
}

async fn read(link: &Link, id: RecordId, name: &str) -> Result<Option<(Entry, Option<Bytes>)>, Trouble> {
    let sql =
        "SELECT attempt, call, input_hash, ended, result FROM idempotency_effects WHERE record = $1 AND name = $2";
    let Some(row) = link.query_opt(sql, &[&id.0, &name]).await? else { return Ok(None) };
    let damaged = |column: &str| {
        Trouble::Item(StoreError::unreadable(format!("an effect of record {} holds a damaged {column}", id.0)))
    };
    let input: Option<&[u8]> = row.try_get(2)?;
    let entry = Entry {
        attempt: u32::try_from(row.try_get::<_, i64>(0)?).map_err(|_| damaged("attempt"))?,
        call: Call(row.try_get::<_, &[u8]>(1)?.try_into().map_err(|_| damaged("call"))?),
        input: input.map(|hash| hash.try_into().map(Input).map_err(|_| damaged("input_hash"))).transpose()?,
        end: word(row.try_get(3)?, id)?,
    };
    let result: Option<&[u8]> = row.try_get(4)?;
    Ok(Some((entry, result.map(Bytes::copy_from_slice))))
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
pub(super) async fn of(link: &Link, id: RecordId) -> Result<Vec<Effect>, Trouble> {
    let sql = "SELECT name, provider_key, attempt, started_at, finished_at, ended FROM idempotency_effects \
               WHERE record = $1 ORDER BY started_at, name";
    let rows = link.query(sql, &[&id.0]).await?;
    let mut effects = Vec::with_capacity(rows.len());
    for row in &rows {
        effects.push(Effect {
            name: row.try_get(0)?,
            provider_key: row.try_get(1)?,
            attempt: u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default(),
            started_at: Timestamp::from_millis(row.try_get(3)?),
            finished_at: row.try_get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
            end: word(row.try_get(5)?, id)?,
        });
    }
    Ok(effects)
}

/// Whoever settled the record found out that nothing came of its open effects.
pub(super) async fn close(link: &impl Speak, id: RecordId, now: Timestamp) -> Result<(), Trouble> {
    link.execute(
        "UPDATE idempotency_effects SET ended = 'not_applied', finished_at = $2 \
         WHERE record = $1 AND coalesce(ended, 'unknown') = 'unknown'",
        &[&id.0, &now.as_millis()],
    )
    .await?;
    Ok(())
}

/// A tombstone has no journal.
pub(super) async fn forget(link: &impl Speak, id: RecordId) -> Result<(), Trouble> {
    link.execute("DELETE FROM idempotency_effects WHERE record = $1", &[&id.0]).await?;
    Ok(())
}
