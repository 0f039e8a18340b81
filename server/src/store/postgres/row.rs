//! A record as a row. Many are written by one statement, a column each as an array.

use bytes::Bytes;
use samekey_core::claim::{Effects, Ended, Fence, Holder, Reason, Record, State};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::{Actor, Key, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::Trouble;
use super::pool::Speak;
use crate::store::sqlite::row::{header_bytes, parse_headers, signed};
use crate::store::{Found, RecordId, StoreError, StoredResponse};

/// What [`read`] reads, in its order.
pub(super) const COLUMNS: &str = "id, payload_hash, state, attempt, holder, took_over, revision, lease_until, \
     deadline, settle_after, not_before, reason, ended, status_code, result_id, response_body IS NOT NULL, \
     created_at, finished_at, expires_at, operation, effects_open, effects_finished, effects_not_applied, \
     configured";

/// How many columns [`COLUMNS`] names.
pub(super) const COLUMN_COUNT: usize = 24;

fn moment(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(Timestamp::from_millis)
}

fn small<T: TryFrom<i64> + Default>(value: i64) -> T {
    T::try_from(value).unwrap_or_default()
}

/// Reads a record whose columns begin at `at`. A word that is not known is an error of this record alone.
pub(super) fn read(row: &Row, at: usize) -> Result<Found, Trouble> {
    let id: i64 = row.try_get(at)?;
    let unreadable = |column: &str, value: &str| {
        Trouble::Item(StoreError::unreadable(format!("record {id} holds {column} {value:?}, which is not known here")))
    };
    let number = |column: usize| row.try_get::<_, i64>(at + column);
    let optional = |column: usize| row.try_get::<_, Option<i64>>(at + column).map(moment);
    let text = |column: usize| row.try_get::<_, Option<&str>>(at + column);
    let fingerprint = match text(1)? {
        None => None,
        Some(hash) => Some(Fingerprint::parse(hash).map_err(|_| unreadable("payload_hash", hash))?),
    };
    let state = text(2)?.unwrap_or_default();
    let state = State::from_name(state).ok_or_else(|| unreadable("state", state))?;
    let reason = match text(11)? {
        None => None,
        Some(word) => Some(Reason::from_name(word).ok_or_else(|| unreadable("reason", word))?),
    };
    let ended = match text(12)? {
        None => None,
        Some(word) => Some(Ended::from_name(word).ok_or_else(|| unreadable("ended", word))?),
    };
    let holder = <[u8; 16]>::try_from(row.try_get::<_, &[u8]>(at + 4)?).map_err(|_| unreadable("holder", "…"))?;
    let status_code = row.try_get::<_, Option<i32>>(at + 13)?;
    let record = Record {
        fingerprint,
        state,
        fence: Fence { attempt: small(number(3)?), holder: Holder::from_bytes(holder) },
        took_over: row.try_get(at + 5)?,
        revision: number(6)?.unsigned_abs(),
        lease_until: Timestamp::from_millis(number(7)?),
        deadline: Timestamp::from_millis(number(8)?),
        settle_after: optional(9)?,
        not_before: optional(10)?,
        reason,
        ended,
        status_code: status_code.map(|status| small(status.into())),
        result_id: text(14)?.map(str::to_owned),
        has_response: row.try_get(at + 15)?,
        created_at: Timestamp::from_millis(number(16)?),
        finished_at: optional(17)?,
        expires_at: optional(18)?,
        effects: Effects { open: small(number(20)?), finished: small(number(21)?), not_applied: small(number(22)?) },
    };
    Ok(Found { id: RecordId(id), operation: row.try_get(at + 19)?, configured: row.try_get(at + 23)?, record })
}

/// PostgreSQL's text holds no NUL; what an answer says of itself must not keep it from being stored.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Where a new record stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) actor: &'a Actor,
    pub(super) operation: &'a str,
    pub(super) key: &'a Key,
    pub(super) configured: bool,
    pub(super) request_id: Option<&'a str>,
}

/// The columns of records that are inserted and updated alike.
#[derive(Default)]
struct Columns {
    payload_hash: Vec<Option<String>>,
    state: Vec<&'static str>,
    attempt: Vec<i64>,
    holder: Vec<Vec<u8>>,
    took_over: Vec<bool>,
    revision: Vec<i64>,
    lease_until: Vec<i64>,
    deadline: Vec<i64>,
    settle_after: Vec<Option<i64>>,
    not_before: Vec<Option<i64>>,
    reason: Vec<Option<&'static str>>,
    ended: Vec<Option<&'static str>>,
    finished_at: Vec<Option<i64>>,
    expires_at: Vec<Option<i64>>,
}

impl Columns {
    fn push(&mut self, record: &Record) {
        self.payload_hash.push(record.fingerprint.map(|fingerprint| fingerprint.to_text()));
        self.state.push(record.state.as_str());
        self.attempt.push(record.fence.attempt.into());
        self.holder.push(record.fence.holder.as_bytes().to_vec());
        self.took_over.push(record.took_over);
        self.revision.push(signed(record.revision));
        self.lease_until.push(record.lease_until.as_millis());
        self.deadline.push(record.deadline.as_millis());
        self.settle_after.push(record.settle_after.map(Timestamp::as_millis));
        self.not_before.push(record.not_before.map(Timestamp::as_millis));
        self.reason.push(record.reason.map(Reason::as_str));
        self.ended.push(record.ended.map(Ended::as_str));
        self.finished_at.push(record.finished_at.map(Timestamp::as_millis));
        self.expires_at.push(record.expires_at.map(Timestamp::as_millis));
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 14] {
        [
            &self.payload_hash,
            &self.state,
            &self.attempt,
            &self.holder,
            &self.took_over,
            &self.revision,
            &self.lease_until,
            &self.deadline,
            &self.settle_after,
            &self.not_before,
            &self.reason,
            &self.ended,
            &self.finished_at,
            &self.expires_at,
        ]
    }
}

/// The unique index decides who won; whoever holds the key's lock loses only to a program that knows no locks.
pub(super) const INSERT: &str = "INSERT INTO idempotency_keys (payload_hash, state, attempt, holder, took_over, revision, \
     lease_until, deadline, settle_after, not_before, reason, ended, finished_at, expires_at, actor_id, operation, \
     idem_key, configured, created_at, request_id) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bool[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::bigint[], $15::text[], \
     $16::text[], $17::text[], $18::bool[], $19::bigint[], $20::text[]) \
     ON CONFLICT DO NOTHING RETURNING id, idem_key, actor_id, operation";

/// Records to insert.
#[derive(Default)]
pub(super) struct Inserts<'a> {
    columns: Columns,
    actor: Vec<&'a str>,
    operation: Vec<&'a str>,
    key: Vec<&'a str>,
    configured: Vec<bool>,
    created_at: Vec<i64>,
    request_id: Vec<Option<String>>,
}

impl<'a> Inserts<'a> {
    pub(super) fn push(&mut self, place: Place<'a>, record: &Record) {
        self.columns.push(record);
        self.actor.push(place.actor.stored());
        self.operation.push(place.operation);
        self.key.push(place.key.expose());
        self.configured.push(place.configured);
        self.created_at.push(record.created_at.as_millis());
        self.request_id.push(place.request_id.map(without_nul));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key.is_empty()
    }

    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let own: [&(dyn ToSql + Sync); 6] =
            [&self.actor, &self.operation, &self.key, &self.configured, &self.created_at, &self.request_id];
        self.columns.parameters().into_iter().chain(own).collect()
    }
}

/// Writes over the revision that was read. Without `has_response` only the response's headers are kept. Looks are
/// counted anew each time that a record becomes uncertain.
pub(super) const UPDATE: &str = "UPDATE idempotency_keys AS r SET payload_hash = w.payload_hash, state = w.state, \
     attempt = w.attempt, holder = w.holder, took_over = w.took_over, revision = w.revision, \
     lease_until = w.lease_until, deadline = w.deadline, settle_after = w.settle_after, not_before = w.not_before, \
     reason = w.reason, ended = w.ended, finished_at = w.finished_at, expires_at = w.expires_at, \
     status_code = w.status_code, result_id = w.result_id, \
     response_headers = CASE WHEN w.keeps THEN r.response_headers ELSE w.headers END, \
     response_body = CASE WHEN w.keeps THEN r.response_body ELSE w.body END, \
     effects_open = w.open, effects_finished = w.finished, effects_not_applied = w.not_applied, \
     looks = CASE WHEN r.state = 'uncertain' AND w.state = 'uncertain' THEN r.looks ELSE 0 END, \
     look_at = CASE WHEN r.state = 'uncertain' AND w.state = 'uncertain' THEN r.look_at END \
     FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bool[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::bigint[], $15::bigint[], \
     $16::bigint[], $17::int[], $18::text[], $19::bool[], $20::bytea[], $21::bytea[], $22::bigint[], $23::bigint[], \
     $24::bigint[]) AS w(payload_hash, state, attempt, holder, took_over, revision, lease_until, deadline, \
     settle_after, not_before, reason, ended, finished_at, expires_at, id, seen, status_code, result_id, keeps, \
     headers, body, open, finished, not_applied) WHERE r.id = w.id AND r.revision = w.seen RETURNING r.id";

/// Records to write over others.
#[derive(Default)]
pub(super) struct Updates<'a> {
    columns: Columns,
    id: Vec<i64>,
    seen: Vec<i64>,
    status_code: Vec<Option<i32>>,
    result_id: Vec<Option<String>>,
    keeps: Vec<bool>,
    headers: Vec<Option<Vec<u8>>>,
    body: Vec<Option<&'a [u8]>>,
    open: Vec<i64>,
    finished: Vec<i64>,
    not_applied: Vec<i64>,
}

impl<'a> Updates<'a> {
    /// `record` over the one that had `revision`, and its response: a new one, the one that is there, or none any
    /// more.
    pub(super) fn push(&mut self, id: RecordId, revision: u64, record: &Record, response: Option<&'a StoredResponse>) {
        self.columns.push(record);
        self.id.push(id.0);
        self.seen.push(signed(revision));
        self.status_code.push(record.status_code.map(i32::from));
        self.result_id.push(record.result_id.as_deref().map(without_nul));
        self.keeps.push(record.has_response && response.is_none());
        self.headers.push(response.map(|response| header_bytes(&response.headers)));
        self.body.push(response.filter(|_| record.has_response).map(|response| &response.body[..]));
        self.open.push(record.effects.open.into());
        self.finished.push(record.effects.finished.into());
        self.not_applied.push(record.effects.not_applied.into());
    }

    /// One alone.
    pub(super) fn one(id: RecordId, revision: u64, record: &Record, response: Option<&'a StoredResponse>) -> Self {
        let mut updates = Self::default();
        updates.push(id, revision, record, response);
        updates
    }

    pub(super) fn len(&self) -> usize {
        self.id.len()
    }

    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let own: [&(dyn ToSql + Sync); 10] = [
            &self.id,
            &self.seen,
            &self.status_code,
            &self.result_id,
            &self.keeps,
            &self.headers,
            &self.body,
            &self.open,
            &self.finished,
            &self.not_applied,
        ];
        self.columns.parameters().into_iter().chain(own).collect()
    }

    /// Says how many revisions were still there.
    pub(super) async fn write(&self, link: &impl Speak) -> Result<usize, Trouble> {
        Ok(link.query(UPDATE, &self.parameters()).await?.len())
    }
}

/// Reads what is stored of a response: its body may be missing, a tombstone has neither.
pub(super) async fn response(link: &impl Speak, id: RecordId) -> Result<Option<StoredResponse>, Trouble> {
    let sql = "SELECT response_headers, coalesce(response_body, ''::bytea) FROM idempotency_keys WHERE id = $1";
    match link.query_opt(sql, &[&id.0]).await? {
        Some(row) => response_of(&row, 0, id),
        None => Ok(None),
    }
}

/// Reads headers and body, whose columns begin at `at`.
pub(super) fn response_of(row: &Row, at: usize, id: RecordId) -> Result<Option<StoredResponse>, Trouble> {
    let Some(headers) = row.try_get::<_, Option<&[u8]>>(at)? else { return Ok(None) };
    let headers = parse_headers(headers).ok_or_else(|| {
        Trouble::Item(StoreError::unreadable(format!("record {} holds response_headers that are none", id.0)))
    })?;
    let body: Option<&[u8]> = row.try_get(at + 1)?;
    Ok(Some(StoredResponse { headers, body: Bytes::copy_from_slice(body.unwrap_or_default()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_as_many_as_are_read() {
        assert_eq!(COLUMNS.split(", ").count(), COLUMN_COUNT);
    }
}
