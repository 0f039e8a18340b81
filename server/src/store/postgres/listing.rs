//! Records by what they are looked for, a chunk of the table at a time.

use samekey_core::claim::State;
use samekey_core::{Actor, Key, Timestamp};
use tokio_postgres::Row;

use super::cases;
use super::error::Trouble;
use super::pool::{Link, Speak};
use crate::store::RecordId;
use crate::store::listing::{CHUNK, Listed, Page, Search};

fn listed(row: &Row) -> Result<Listed, Trouble> {
    Ok(Listed { case: cases::case(row)?, request_id: row.try_get(cases::COLUMN_COUNT)? })
}

pub(super) async fn by_id(link: &Link, id: RecordId) -> Result<Option<Listed>, Trouble> {
    let sql = format!("SELECT {}, request_id FROM idempotency_keys WHERE id = $1", cases::columns());
    link.query_opt(&sql, &[&id.0]).await?.map(|row| listed(&row)).transpose()
}

/// The records of one chunk that fit, but for hashes, and where the next chunk begins. One that is written by a newer
/// version is left out: that version shows it.
pub(super) async fn chunk(link: &Link, search: &Search, before: Option<RecordId>) -> Result<Page, Trouble> {
    let ids = candidates(link, search, before).await?;
    let more = ids.last().filter(|_| ids.len() == CHUNK).map(|id| RecordId(*id));
    let sql = format!(
        "SELECT {}, request_id FROM idempotency_keys AS record WHERE id = ANY($1) \
         AND ($2::text IS NULL OR state = $2) AND ($3::text IS NULL OR operation = $3) \
         AND ($4::text IS NULL OR actor_id = $4) AND ($5::text IS NULL OR result_id = $5) \
         AND ($6::bigint IS NULL OR created_at <= $6) AND ($7::bigint IS NULL OR created_at >= $7) \
         AND ($8::text IS NULL OR request_id = $8 OR EXISTS \
         (SELECT 1 FROM idempotency_trail AS step WHERE step.record = record.id AND step.request_id = $8)) \
         ORDER BY id DESC",
        cases::columns()
    );
    let rows = link
        .query(
            &sql,
            &[
                &ids,
                &search.state.map(State::as_str),
                &search.operation,
                &search.actor.as_ref().map(Actor::stored),
                &search.result_id,
                &search.until.map(Timestamp::as_millis),
                &search.since.map(Timestamp::as_millis),
                &search.request_id,
            ],
        )
        .await?;
    let mut list = Vec::with_capacity(rows.len());
    for row in &rows {
        match listed(row) {
            Ok(record) => list.push(record),
            Err(Trouble::Item(error)) => tracing::debug!(%error, "left to others"),
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(Page { list, more })
}

/// Which records to look at next: by an index where one knows, else all of them.
async fn candidates(link: &Link, search: &Search, before: Option<RecordId>) -> Result<Vec<i64>, Trouble> {
    let within = match (&search.key, search.state) {
        (Some(_), _) => "idem_key = $3",
        (None, Some(State::Uncertain)) => "state = 'uncertain' AND $3::text IS NULL",
        (None, Some(State::InProgress)) => "state = 'in_progress' AND $3::text IS NULL",
        (None, _) => "$3::text IS NULL",
    };
    let sql = format!("SELECT id FROM idempotency_keys WHERE {within} AND id < $1 ORDER BY id DESC LIMIT $2");
    let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let key = search.key.as_ref().map(Key::expose);
    let rows = link.query(&sql, &[&before.map_or(i64::MAX, |id| id.0), &limit, &key]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
