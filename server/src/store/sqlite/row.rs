//! A record as a row, and a response's headers as bytes.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use rusqlite::{Connection, OptionalExtension, Row, params};
use samekey_core::claim::{Effects, Ended, Fence, Holder, Reason, Record, State};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::{Actor, Key, Timestamp};

use super::Trouble;
use crate::store::{Found, RecordId, StoreError, StoredResponse};

/// What [`read`] reads, in its order.
pub(super) const COLUMNS: &str = "id, payload_hash, state, attempt, holder, took_over, revision, lease_until, \
     deadline, settle_after, not_before, reason, ended, status_code, result_id, response_body IS NOT NULL, \
     created_at, finished_at, expires_at, operation, effects_open, effects_finished, effects_not_applied, \
     configured";

/// How many columns [`COLUMNS`] names.
pub(super) const COLUMN_COUNT: usize = 24;

/// Reads a record. A word that is not known is an error of this record alone.
pub(super) fn read(row: &Row<'_>) -> Result<Found, Trouble> {
    let id: i64 = row.get(0)?;
    let unreadable = |column: &str, value: &str| {
        Trouble::Item(StoreError::unreadable(format!("record {id} holds {column} {value:?}, which is not known here")))
    };
    let moment = |column| row.get::<_, Option<i64>>(column).map(|millis| millis.map(Timestamp::from_millis));
    let text = |column| row.get_ref(column).and_then(|value| Ok(value.as_str_or_null()?));
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
    let record = Record {
        fingerprint,
        state,
        fence: Fence { attempt: row.get(3)?, holder: Holder::from_bytes(row.get(4)?) },
        took_over: row.get(5)?,
        revision: row.get::<_, i64>(6)?.unsigned_abs(),
        lease_until: Timestamp::from_millis(row.get(7)?),
        deadline: Timestamp::from_millis(row.get(8)?),
        settle_after: moment(9)?,
        not_before: moment(10)?,
        reason,
        ended,
        status_code: row.get(13)?,
        result_id: row.get(14)?,
        has_response: row.get(15)?,
        created_at: Timestamp::from_millis(row.get(16)?),
        finished_at: moment(17)?,
        expires_at: moment(18)?,
        effects: Effects { open: row.get(20)?, finished: row.get(21)?, not_applied: row.get(22)? },
    };
    Ok(Found { id: RecordId(id), operation: row.get(19)?, configured: row.get(23)?, record })
}

/// Where a new record stands.
pub(super) struct Place<'a> {
    pub(super) actor: &'a Actor,
    pub(super) operation: &'a str,
    pub(super) key: &'a Key,
    pub(super) configured: bool,
    pub(super) request_id: Option<&'a str>,
}

/// Inserts a record or nothing, if the place is taken.
pub(super) fn insert(conn: &Connection, place: &Place<'_>, record: &Record) -> rusqlite::Result<Option<RecordId>> {
    // By position: looking parameters up by name takes longer than the insertion.
    let inserted = conn
        .prepare_cached(
            "INSERT INTO idempotency_keys (actor_id, operation, idem_key, configured, payload_hash, state, attempt, \
             holder, took_over, revision, lease_until, deadline, settle_after, not_before, reason, ended, status_code, \
             result_id, created_at, finished_at, expires_at, request_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
             ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22) \
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            place.actor.stored(),
            place.operation,
            place.key.expose(),
            place.configured,
            record.fingerprint.map(|fingerprint| fingerprint.to_text()),
            record.state.as_str(),
            record.fence.attempt,
            record.fence.holder.as_bytes(),
            record.took_over,
            signed(record.revision),
            record.lease_until.as_millis(),
            record.deadline.as_millis(),
            record.settle_after.map(Timestamp::as_millis),
            record.not_before.map(Timestamp::as_millis),
            record.reason.map(Reason::as_str),
            record.ended.map(Ended::as_str),
            record.status_code,
            record.result_id,
            record.created_at.as_millis(),
            record.finished_at.map(Timestamp::as_millis),
            record.expires_at.map(Timestamp::as_millis),
            place.request_id,
        ])?;
    Ok((inserted == 1).then(|| RecordId(conn.last_insert_rowid())))
}

/// Writes `record` over the one that had `revision`, and its response: a new one, the one that is there, or none
/// any more. Without `has_response` only its headers are kept. Looks are counted anew each time that a record becomes
/// uncertain. Says whether that revision was still there.
pub(super) fn update(
    conn: &Connection,
    id: RecordId,
    revision: u64,
    record: &Record,
    response: Option<&StoredResponse>,
) -> rusqlite::Result<bool> {
    let updated = conn
        .prepare_cached(
            "UPDATE idempotency_keys SET payload_hash = ?3, state = ?4, attempt = ?5, holder = ?6, took_over = ?7, \
             revision = ?8, lease_until = ?9, deadline = ?10, settle_after = ?11, not_before = ?12, reason = ?13, \
             ended = ?14, status_code = ?15, result_id = ?16, finished_at = ?17, expires_at = ?18, \
             response_headers = CASE WHEN ?19 THEN response_headers ELSE ?20 END, \
             response_body = CASE WHEN ?19 THEN response_body ELSE ?21 END, \
             effects_open = ?22, effects_finished = ?23, effects_not_applied = ?24, \
             looks = CASE WHEN state = 'uncertain' AND ?4 = 'uncertain' THEN looks ELSE 0 END, \
             look_at = CASE WHEN state = 'uncertain' AND ?4 = 'uncertain' THEN look_at END \
             WHERE id = ?1 AND revision = ?2",
        )?
        .execute(params![
            id.0,
            signed(revision),
            record.fingerprint.map(|fingerprint| fingerprint.to_text()),
            record.state.as_str(),
            record.fence.attempt,
            record.fence.holder.as_bytes(),
            record.took_over,
            signed(record.revision),
            record.lease_until.as_millis(),
            record.deadline.as_millis(),
            record.settle_after.map(Timestamp::as_millis),
            record.not_before.map(Timestamp::as_millis),
            record.reason.map(Reason::as_str),
            record.ended.map(Ended::as_str),
            record.status_code,
            record.result_id,
            record.finished_at.map(Timestamp::as_millis),
            record.expires_at.map(Timestamp::as_millis),
            record.has_response && response.is_none(),
            response.map(|response| header_bytes(&response.headers)),
            response.filter(|_| record.has_response).map(|response| &response.body[..]),
            record.effects.open,
            record.effects.finished,
            record.effects.not_applied,
        ])?;
    Ok(updated == 1)
}

/// Reads what is stored of a response into memory: its body may be missing, a tombstone has neither.
/// `Ok(None)`: its body is longer than `at_most`.
pub(super) fn response(
    conn: &Connection,
    id: RecordId,
    at_most: usize,
) -> Result<Option<Option<StoredResponse>>, Trouble> {
    // The length stands in the row's head; the pages of a body that is not wanted are not touched.
    let mut statement = conn.prepare_cached(
        "SELECT response_headers, \
         CASE WHEN coalesce(octet_length(response_body), 0) <= ?2 THEN coalesce(response_body, x'') END \
         FROM idempotency_keys WHERE id = ?1",
    )?;
    let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
    let read = statement
        .query_row((id.0, at_most), |row| Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?)))
        .optional()?;
    let (headers, body) = match read {
        Some((Some(headers), Some(body))) => (headers, body),
        Some((_, None)) => return Ok(None),
        _ => return Ok(Some(None)),
    };
    let headers = parse_headers(&headers).ok_or_else(|| {
        Trouble::Item(StoreError::unreadable(format!("record {} holds response_headers that are none", id.0)))
    })?;
    Ok(Some(Some(StoredResponse { headers, body: Bytes::from(body) })))
}

/// SQLite's integers are signed; a revision never comes near the difference.
pub(in crate::store) fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// `name: value\r\n` for each field. No value can hold a line break, so the bytes stay exact.
pub(in crate::store) fn header_bytes(headers: &[(HeaderName, HeaderValue)]) -> Vec<u8> {
    let length = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let mut bytes = Vec::with_capacity(length);
    for (name, value) in headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub(in crate::store) fn parse_headers(mut bytes: &[u8]) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let mut headers = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &bytes[..end];
        let colon = line.windows(2).position(|pair| pair == b": ")?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.push((name, HeaderValue::from_bytes(&line[colon + 2..]).ok()?));
        bytes = &bytes[end + 2..];
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_repetition_and_bytes() {
        let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
        let headers = vec![
            (http::header::LINK, value(b"<a>; rel=\"next\"")),
            (http::header::ETAG, value(b"")),
            (http::header::LINK, value(b" x: y \t")),
            (http::header::CONTENT_DISPOSITION, value(b"attachment; filename=\"caf\xe9\"")),
        ];
        assert_eq!(parse_headers(&header_bytes(&headers)), Some(headers));
        assert_eq!(parse_headers(b""), Some(Vec::new()));
        assert_eq!(parse_headers(b"etag: x"), None);
        assert_eq!(parse_headers(b"etag x\r\n"), None);
    }

    #[test]
    fn the_columns_are_as_many_as_are_read() {
        assert_eq!(COLUMNS.split(", ").count(), COLUMN_COUNT);
    }
}
