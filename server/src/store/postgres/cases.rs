//! Records that somebody has to look at, and the turn of whoever does.

use samekey_core::{Actor, Timestamp};
use tokio_postgres::Row;

use super::error::Trouble;
use super::pool::{Link, Speak};
use super::row;
use crate::store::case::Place;
use crate::store::sqlite::row::signed;
use crate::store::{Case, Cases, Look, RecordId, StoreError};

/// When the next look is due; as the index on it spells it.
pub(super) const LOOK_DUE: &str = "greatest(coalesce(look_at, settle_after), settle_after)";

/// When a claim lapses.
const LAPSES: &str = "least(lease_until, deadline)";

/// What [`case`] reads, in its order.
pub(super) fn columns() -> String {
    format!("{}, actor_id, idem_key, configured, looks", row::COLUMNS)
}

/// How many columns that are.
pub(super) const COLUMN_COUNT: usize = row::COLUMN_COUNT + 4;

/// A record by its name.
pub(super) async fn by_id(link: &Link, id: RecordId) -> Result<Option<Case>, Trouble> {
    let sql = format!("SELECT {} FROM idempotency_keys WHERE id = $1", columns());
    link.query_opt(&sql, &[&id.0]).await?.map(|row| case(&row)).transpose()
}

/// Claims whose lease or deadline is over. Whether they lapsed is for core to say.
pub(super) async fn lapsed(link: &Link, after: Option<Place>, now: Timestamp, limit: usize) -> Result<Cases, Trouble> {
    listed(link, "in_progress", LAPSES, after, now, limit).await
}

/// Uncertain records at which a look is due.
pub(super) async fn uncertain(
    link: &Link,
    after: Option<Place>,
    now: Timestamp,
    limit: usize,
) -> Result<Cases, Trouble> {
    listed(link, "uncertain", LOOK_DUE, after, now, limit).await
}

async fn listed(
    link: &Link,
    state: &'static str,
    due: &'static str,
    after: Option<Place>,
    now: Timestamp,
    limit: usize,
) -> Result<Cases, Trouble> {
    let text = format!(
        "SELECT {}, {due} AS due FROM idempotency_keys \
         WHERE state = '{state}' AND {due} <= $1 AND {due} >= $2 AND ({due} > $2 OR id > $3) \
         ORDER BY {due}, id LIMIT $4",
        columns()
    );
    let from = after.unwrap_or(Place { due: Timestamp::from_millis(i64::MIN), id: RecordId(i64::MIN) });
    let limit = limit.max(1);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = link.query(&text, &[&now.as_millis(), &from.due.as_millis(), &from.id.0, &most]).await?;
    let mut cases = Cases::default();
    for (read, row) in rows.iter().enumerate() {
        let due = Timestamp::from_millis(row.try_get(COLUMN_COUNT)?);
        let place = Place { due, id: RecordId(row.try_get(0)?) };
        cases.more = (read + 1 == limit).then_some(place);
        match case(row) {
            Ok(case) => cases.list.push(case),
            // One that is written by a newer version is for that version to look at; the others must not wait for it.
            Err(Trouble::Item(error)) => tracing::debug!(record = place.id.0, %error, "left to others"),
            Err(trouble) => return Err(trouble),
        }
    }
    let next = format!("SELECT min({due}) FROM idempotency_keys WHERE state = '{state}' AND {due} > $1");
    let next: Option<i64> = link.query_one(&next, &[&now.as_millis()]).await?.try_get(0)?;
    cases.next = next.map(Timestamp::from_millis);
    Ok(cases)
}

pub(super) fn case(row: &Row) -> Result<Case, Trouble> {
    let found = row::read(row, 0)?;
    let key: &str = row.try_get(row::COLUMN_COUNT + 1)?;
    let unreadable = |error| StoreError::unreadable(format!("record {} holds a key that is none: {error}", found.id.0));
    Ok(Case {
        configured: row.try_get(row::COLUMN_COUNT + 2)?,
        actor: Actor::from_stored(row.try_get::<_, String>(row::COLUMN_COUNT)?),
        key: key.parse().map_err(|error| Trouble::Item(unreadable(error)))?,
        looks: u32::try_from(row.try_get::<_, i64>(row::COLUMN_COUNT + 3)?).unwrap_or(u32::MAX),
        found,
    })
}

/// Takes the next look at a record, if it is as it was seen and nobody else took that look. The record is not written:
/// whoever looked at it may still settle it.
pub(super) async fn take(link: &Link, look: &Look) -> Result<bool, Trouble> {
    let taken = link
        .execute(
            "UPDATE idempotency_keys SET looks = looks + 1, look_at = $4 \
             WHERE id = $1 AND revision = $2 AND looks = $3 AND state = 'uncertain'",
            &[&look.id.0, &signed(look.revision), &i64::from(look.looks), &look.next.as_millis()],
        )
        .await?;
    Ok(taken == 1)
}
