//! The rules on a connection of the application's own, inside its transaction.
//!
//! The key's lock is waited for, and held until the transaction ends: a second delivery of the key comes to its look
//! when the first one is through. `lock_timeout` says how long that may take.

use std::collections::HashMap;
use std::sync::Arc;

use samekey_core::claim::{self, Context, Event, Gate, Marks, Say, Verdict, Write};
use samekey_core::problem::Code;
use samekey_core::{Policy, Timestamp};
use tokio_postgres::Transaction;

use super::claims::{keep_profile, look_up, profile_of};
use super::error::Trouble;
use super::look::memory_text;
use super::pool::Speak;
use super::row::{self, Inserts, Place, Updates};
use super::{error, open, sql, trail};
use crate::store::sqlite::claims::{Stand, as_stored, decide, names, unused_marks};
use crate::store::{Applied, Ask, By, Found, Purpose, RecordId, StoreError, StoredResponse, Told};

/// How messages name the database.
pub(crate) fn place() -> Arc<str> {
    "the database".into()
}

/// Makes the tables, or brings them up to date.
pub(crate) async fn migrate(client: &mut tokio_postgres::Client) -> Result<(), StoreError> {
    open::migrate(client, sql::CLOCK, &place()).await
}

/// One transaction of the application.
pub(crate) struct Own<'a, 't> {
    tx: &'a Transaction<'t>,
    created_at: Timestamp,
}

impl<'a, 't> Own<'a, 't> {
    /// Notes when the tables were first used: memory begins there.
    pub(crate) async fn new(tx: &'a Transaction<'t>) -> Result<Self, tokio_postgres::Error> {
        let read = "SELECT value::bigint FROM samekey_meta WHERE name = 'created_at'";
        let mut kept = Speak::query_opt(tx, read, &[]).await?;
        if kept.is_none() {
            open::note_creation(tx, sql::CLOCK).await?;
            kept = Speak::query_opt(tx, read, &[]).await?;
        }
        let created_at = kept.map(|row| row.try_get(0)).transpose()?.unwrap_or(i64::MAX);
        Ok(Self { tx, created_at: Timestamp::from_millis(created_at) })
    }

    /// Waits until no other transaction is about this key.
    pub(crate) async fn lock(&self, ask: &Ask) -> Result<(), tokio_postgres::Error> {
        let lock = sql::key_lock(ask.actor.stored(), ask.key.expose());
        let locks = "SELECT pg_advisory_xact_lock_shared($1), pg_advisory_xact_lock($2)";
        Speak::execute(self.tx, locks, &[&sql::HORIZON_LOCK, &lock]).await.map(drop)
    }

    /// The delivery, under the key's lock.
    pub(crate) async fn deliver(&self, ask: &Ask) -> Result<Told, StoreError> {
        self.meet(ask).await.map_err(|trouble| trouble.into_error(&place()))
    }

    async fn meet(&self, ask: &Ask) -> Result<Told, Trouble> {
        let tx = self.tx;
        let marked: Vec<&str> = names(ask).chain([""]).collect();
        // In this order: what was forgotten before the first look is told by the second.
        let found = look_up(tx, ask).await?;
        let memory = Speak::query_one(tx, &memory_text(sql::CLOCK), &[&marked]).await?;
        let now = Timestamp::from_millis(memory.try_get(0)?);
        let marks = match &found {
            Some(_) => unused_marks(),
            None => {
                let (operations, marks): (Vec<String>, Vec<i64>) = (memory.try_get(2)?, memory.try_get(3)?);
                let marks: HashMap<String, i64> = operations.into_iter().zip(marks).collect();
                let newest = marked.iter().filter_map(|name| marks.get(*name)).copied().max();
                let start = self.created_at - ask.policy.remember;
                Marks {
                    forgotten_before: newest.map_or(start, |mark| start.max(Timestamp::from_millis(mark))),
                    horizon: memory.try_get::<_, Option<i64>>(1)?.map(Timestamp::from_millis),
                }
            }
        };
        // Claims in a transaction have no heartbeat and no process that could judge them: whoever committed one
        // without its end left it, and its deadline tells.
        let context = Context { now, policy: &ask.policy, may_judge: true, new_holder: crate::new_holder() };
        let stand = Stand { gate: Gate::Open, marks, latest: now };
        let record = found.as_ref().map(|found| &found.record);
        let Verdict { write, say } = decide(ask, Purpose::Run, record, stand, &context);
        let found = match (write, found) {
            (None, found) => found,
            (Some(record), None) => {
                if record.fingerprint.is_some() {
                    keep_profile(tx, &ask.profile).await?;
                }
                let mut inserts = Inserts::default();
                let place = Place {
                    actor: &ask.actor,
                    operation: &ask.operation,
                    key: &ask.key,
                    configured: ask.configured,
                    request_id: ask.request_id.as_deref(),
                };
                inserts.push(place, &record);
                let row = Speak::query_opt(tx, row::INSERT, &inserts.parameters()).await?.ok_or_else(changed)?;
                let id = RecordId(row.try_get(0)?);
                trail::add(tx, id, (None, &record), By::delivery(&record), None, now).await?;
                Some(Found { id, operation: ask.operation.to_string(), configured: ask.configured, record })
            }
            (Some(record), Some(seen)) => {
                if Updates::one(seen.id, seen.record.revision, &record, None).write(tx).await? == 0 {
                    return Err(changed());
                }
                trail::add(tx, seen.id, (Some(&seen.record), &record), By::delivery(&record), None, now).await?;
                Some(Found { record, ..seen })
            }
        };
        let response = match (&say, &found) {
            (Say::Replay | Say::Refuse(Code::ResponseNotStored), Some(found)) => row::response(tx, found.id).await?,
            _ => None,
        };
        let profile = profile_of(tx, say).await?;
        Ok(Told { say, found, response, profile, now })
    }

    /// The end of a claim that was made in this transaction.
    pub(crate) async fn apply(
        &self,
        id: RecordId,
        policy: &Arc<Policy>,
        event: Event,
        response: Option<StoredResponse>,
    ) -> Result<Applied, StoreError> {
        let applied = async {
            let sql = format!("SELECT {}, {} FROM idempotency_keys WHERE id = $1", row::COLUMNS, sql::CLOCK);
            let Some(row) = Speak::query_opt(self.tx, &sql, &[&id.0]).await? else {
                return Ok(Applied { record: None, refused: None });
            };
            let seen = row::read(&row, 0)?.record;
            let now = Timestamp::from_millis(row.try_get(row::COLUMN_COUNT)?);
            let context = Context { now, policy, may_judge: true, new_holder: crate::new_holder() };
            let event = as_stored(&event, response.as_ref());
            match claim::transition(&seen, &event, &context) {
                Ok(Write::Update(written)) => {
                    if Updates::one(id, seen.revision, &written, response.as_ref()).write(self.tx).await? == 0 {
                        return Err(changed());
                    }
                    trail::add(self.tx, id, (Some(&seen), &written), By::event(&event), None, now).await?;
                    Ok(Applied { record: Some(written), refused: None })
                }
                Ok(_) => Ok(Applied { record: Some(seen), refused: None }),
                Err(refused) => Ok(Applied { record: Some(seen), refused: Some(refused) }),
            }
        };
        applied.await.map_err(|trouble: Trouble| trouble.into_error(&place()))
    }
}

/// Somebody without the key's lock was at its record.
fn changed() -> Trouble {
    Trouble::Item(StoreError::Busy { place: place() })
}

/// What a transaction's error means.
pub(crate) fn error_of(error: &tokio_postgres::Error) -> StoreError {
    error::of(&place(), error)
}
