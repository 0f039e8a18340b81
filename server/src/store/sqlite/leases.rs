//! The heartbeat: all own claims that are due, in one statement.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};
use samekey_core::Timestamp;
use samekey_core::claim::State;

use crate::store::hold::Lease;

/// Row S2 of core's table, for many records at once. A test compares it with the rule.
const RENEW: &str = "UPDATE idempotency_keys \
    SET lease_until = min(own.until, deadline), revision = revision + 1 \
    FROM (SELECT value ->> 0 AS own_id, value ->> 1 AS own_attempt, unhex(value ->> 2) AS own_holder, \
          value ->> 3 AS until FROM json_each(?1)) AS own \
    WHERE id = own_id AND attempt = own_attempt AND holder = own_holder \
      AND state = 'in_progress' AND ?2 < deadline \
    RETURNING id";

/// A claim that was not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lease: Lease,
    pub(super) why: Why,
}

/// Why a claim was not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It ended in time, or reached its deadline: nothing to worry about.
    Over,
    /// The record became uncertain, or another holder's, while this one worked.
    Taken(Option<State>),
}

/// Renews what still stands, and says what does not.
pub(super) fn renew(conn: &Connection, leases: &[Lease], now: Timestamp) -> rusqlite::Result<Vec<Lost>> {
    let own: Vec<(i64, u32, String, i64)> = leases
        .iter()
        .map(|Lease { id, fence, length }| {
            (id.0, fence.attempt, crate::hex(fence.holder.as_bytes()), (now + *length).as_millis())
        })
        .collect();
    let json = serde_json::to_string(&own).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let renewed: HashSet<i64> = conn
        .prepare_cached(RENEW)?
        .query_map((json, now.as_millis()), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut lost = Vec::new();
    for lease in leases.iter().filter(|lease| !renewed.contains(&lease.id.0)) {
        lost.push(Lost { lease: *lease, why: why(conn, lease, now)? });
    }
    Ok(lost)
}

fn why(conn: &Connection, lease: &Lease, now: Timestamp) -> rusqlite::Result<Why> {
    let seen: Option<(String, u32, [u8; 16], i64)> = conn
        .prepare_cached("SELECT state, attempt, holder, deadline FROM idempotency_keys WHERE id = ?1")?
        .query_row([lease.id.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((state, attempt, holder, deadline)) = seen else { return Ok(Why::Taken(None)) };
    let state = State::from_name(&state);
    let mine = attempt == lease.fence.attempt && holder == *lease.fence.holder.as_bytes();
    let in_time = state != Some(State::Uncertain) || now.as_millis() >= deadline;
    Ok(if mine && in_time { Why::Over } else { Why::Taken(state) })
}
