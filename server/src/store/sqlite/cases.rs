//! Records that somebody has to look at, and the turn of whoever does.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, Row};
use samekey_core::{Actor, Timestamp};

use super::{Trouble, row};
use crate::store::case::Place;
use crate::store::{Case, Cases, Look, RecordId, StoreError};

/// When the next look is due; as the index on it spells it.
pub(super) const LOOK_DUE: &str = "max(coalesce(look_at, settle_after), settle_after)";

/// When a claim lapses.
const LAPSES: &str = "min(lease_until, deadline)";

/// What [`case`] reads, in its order.
pub(super) static COLUMNS: LazyLock<String> =
    LazyLock::new(|| format!("{}, actor_id, idem_key, configured, looks", row::COLUMNS));

/// How many columns [`COLUMNS`] names.
pub(super) const COLUMN_COUNT: usize = row::COLUMN_COUNT + 4;

/// Claims whose lease or deadline is over. Whether they lapsed is for core to say.
pub(super) fn lapsed(conn: &Connection, after: Option<Place>, now: Timestamp, limit: usize) -> Result<Cases, Trouble> {
    listed(conn, "in_progress", LAPSES, after, now, limit)
}

/// Uncertain records at which a look is due.
pub(super) fn uncertain(
    conn: &Connection,
    after: Option<Place>,
    now: Timestamp,
    limit: usize,
) -> Result<Cases, Trouble> {
    listed(conn, "uncertain", LOOK_DUE, after, now, limit)
}

fn listed(
    conn: &Connection,
    state: &'static str,
    due: &'static str,
    after: Option<Place>,
    now: Timestamp,
    limit: usize,
) -> Result<Cases, Trouble> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {}, {due} AS due FROM idempotency_keys \
         WHERE state = '{state}' AND {due} <= ?1 AND {due} >= ?2 AND ({due} > ?2 OR id > ?3) \
         ORDER BY {due}, id LIMIT ?4",
        *COLUMNS
    ))?;
    let from = after.unwrap_or(Place { due: Timestamp::from_millis(i64::MIN), id: RecordId(i64::MIN) });
    let limit = limit.max(1);
    let mut rows = statement.query((
        now.as_millis(),
        from.due.as_millis(),
        from.id.0,
        i64::try_from(limit).unwrap_or(i64::MAX),
    ))?;
    let (mut cases, mut read) = (Cases::default(), 0);
    while let Some(row) = rows.next()? {
        read += 1;
        let place = Place { due: Timestamp::from_millis(row.get(COLUMN_COUNT)?), id: RecordId(row.get(0)?) };
        cases.more = (read == limit).then_some(place);
        match case(row) {
            Ok(case) => cases.list.push(case),
            // One that is written by a newer version is for that version to look at; the others must not wait for it.
            Err(Trouble::Item(error)) => tracing::debug!(record = place.id.0, %error, "left to others"),
            Err(trouble) => return Err(trouble),
        }
    }
    let next: Option<i64> = conn
        .prepare_cached(&format!("SELECT min({due}) FROM idempotency_keys WHERE state = '{state}' AND {due} > ?1"))?
        .query_row([now.as_millis()], |row| row.get(0))
        .optional()?
        .flatten();
    cases.next = next.map(Timestamp::from_millis);
    Ok(cases)
}

/// A record by its name.
pub(super) fn by_id(conn: &Connection, id: RecordId) -> Result<Option<Case>, Trouble> {
    let mut statement = conn.prepare_cached(&format!("SELECT {} FROM idempotency_keys WHERE id = ?1", *COLUMNS))?;
    let mut rows = statement.query([id.0])?;
    rows.next()?.map(case).transpose()
}

pub(super) fn case(row: &Row<'_>) -> Result<Case, Trouble> {
    let found = row::read(row)?;
    let key: String = row.get(row::COLUMN_COUNT + 1)?;
    let unreadable = |error| StoreError::unreadable(format!("record {} holds a key that is none: {error}", found.id.0));
    Ok(Case {
        configured: row.get(row::COLUMN_COUNT + 2)?,
        actor: Actor::from_stored(row.get::<_, String>(row::COLUMN_COUNT)?),
        key: key.parse().map_err(|error| Trouble::Item(unreadable(error)))?,
        looks: row.get(row::COLUMN_COUNT + 3)?,
        found,
    })
}

/// Takes the next look at a record, if it is as it was seen and nobody else took that look. The record is not written:
/// whoever looked at it may still settle it.
pub(super) fn take(conn: &Connection, look: &Look) -> rusqlite::Result<bool> {
    let taken = conn
        .prepare_cached(
            "UPDATE idempotency_keys SET looks = looks + 1, look_at = ?4 \
             WHERE id = ?1 AND revision = ?2 AND looks = ?3 AND state = 'uncertain'",
        )?
        .execute((look.id.0, row::signed(look.revision), look.looks, look.next.as_millis()))?;
    Ok(taken == 1)
}
