//! Records by what they are looked for, a chunk of the table at a time.

use std::sync::LazyLock;

use rusqlite::{Connection, Row, params};
use samekey_core::claim::State;
use samekey_core::{Actor, Timestamp};

use super::{Trouble, cases};
use crate::store::RecordId;
use crate::store::listing::{CHUNK, Listed, Page, Search};

fn listed(row: &Row<'_>) -> Result<Listed, Trouble> {
    Ok(Listed { case: cases::case(row)?, request_id: row.get(cases::COLUMN_COUNT)? })
}

pub(super) fn by_id(conn: &Connection, id: RecordId) -> Result<Option<Listed>, Trouble> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT {}, request_id FROM idempotency_keys WHERE id = ?1", *cases::COLUMNS));
    let mut statement = conn.prepare_cached(&SELECT)?;
    let mut rows = statement.query([id.0])?;
    rows.next()?.map(listed).transpose()
}

/// The records of one chunk that fit, but for hashes, and where the next chunk begins. One that is written by a newer
/// version is left out: that version shows it.
pub(super) fn chunk(conn: &Connection, search: &Search, before: Option<RecordId>) -> Result<Page, Trouble> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {}, request_id FROM idempotency_keys AS record WHERE id IN (SELECT value FROM json_each(?1)) \
             AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR operation = ?3) AND (?4 IS NULL OR actor_id = ?4) \
             AND (?5 IS NULL OR result_id = ?5) AND (?6 IS NULL OR created_at <= ?6) \
             AND (?7 IS NULL OR created_at >= ?7) AND (?8 IS NULL OR request_id = ?8 OR EXISTS \
             (SELECT 1 FROM idempotency_trail AS step WHERE step.record = record.id AND step.request_id = ?8)) \
             ORDER BY id DESC",
            *cases::COLUMNS
        )
    });
    let ids = candidates(conn, search, before)?;
    let more = ids.last().filter(|_| ids.len() == CHUNK).map(|id| RecordId(*id));
    let ids = serde_json::Value::from(ids).to_string();
    let mut statement = conn.prepare_cached(&SELECT)?;
    let mut rows = statement.query(params![
        ids,
        search.state.map(State::as_str),
        search.operation,
        search.actor.as_ref().map(Actor::stored),
        search.result_id,
        search.until.map(Timestamp::as_millis),
        search.since.map(Timestamp::as_millis),
        search.request_id,
    ])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        match listed(row) {
            Ok(record) => list.push(record),
            Err(Trouble::Item(error)) => tracing::debug!(%error, "left to others"),
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(Page { list, more })
}

/// Which records to look at next: by an index where one knows, else all of them.
fn candidates(conn: &Connection, search: &Search, before: Option<RecordId>) -> Result<Vec<i64>, Trouble> {
    let (from, of_key) = match (&search.key, search.state) {
        (Some(_), _) => ("WHERE idem_key = ?3", true),
        (None, Some(State::Uncertain)) => {
            ("INDEXED BY idempotency_keys_uncertain WHERE state = 'uncertain' AND ?3 IS NULL", false)
        }
        (None, Some(State::InProgress)) => {
            ("INDEXED BY idempotency_keys_in_progress WHERE state = 'in_progress' AND ?3 IS NULL", false)
        }
        (None, _) => ("WHERE ?3 IS NULL", false),
    };
    let mut statement =
        conn.prepare_cached(&format!("SELECT id FROM idempotency_keys {from} AND id < ?1 ORDER BY id DESC LIMIT ?2"))?;
    let key = search.key.as_ref().filter(|_| of_key).map(samekey_core::Key::expose);
    let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let ids = statement.query_map((before.map_or(i64::MAX, |id| id.0), limit, key), |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
