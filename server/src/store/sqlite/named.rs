//! Records under names that the configuration does not know.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension};
use samekey_core::Timestamp;

use super::Trouble;
use crate::store::{Ask, StoreError};

/// An automatic name holds a space, and needs no configuration.
pub(in crate::store) fn is_automatic(name: &str) -> bool {
    name.contains(' ')
}

/// Names outside of `known` with live records, and how many. One step of the index per name, and a look at each
/// record of an unknown one only.
pub(super) fn in_use(
    conn: &Connection,
    known: &BTreeSet<String>,
    now: Timestamp,
) -> Result<Vec<(String, u64)>, Trouble> {
    let mut next = conn.prepare_cached(
        "SELECT operation FROM idempotency_keys WHERE configured AND state <> 'expired' AND operation > ?1 \
         ORDER BY operation LIMIT 1",
    )?;
    let mut count = conn.prepare_cached(
        "SELECT count(*) FROM idempotency_keys WHERE configured AND state <> 'expired' AND operation = ?1 \
         AND NOT (state IN ('completed', 'failed') AND expires_at <= ?2)",
    )?;
    let mut unknown = Vec::new();
    let mut last = String::new();
    while let Some(name) = next.query_row([&last], |row| row.get::<_, String>(0)).optional()? {
        if !is_automatic(&name) && !known.contains(&name) {
            let live: i64 = count.query_row((&name, now.as_millis()), |row| row.get(0))?;
            if live > 0 {
                unknown.push((name.clone(), live.unsigned_abs()));
            }
        }
        last = name;
    }
    Ok(unknown)
}

/// A key that has no record here but one under a name that is not written down here: another configuration made
/// it, perhaps in a server that runs beside this one. Whether it is this command, only that one knows.
pub(super) fn refuse_foreign(conn: &Connection, ask: &Ask) -> Result<(), Trouble> {
    let Some(known) = &ask.named else { return Ok(()) };
    let mut statement =
        conn.prepare_cached("SELECT operation FROM idempotency_keys WHERE idem_key = ?1 AND actor_id = ?2")?;
    let mut rows = statement.query((ask.key.expose(), ask.actor.stored()))?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if !is_automatic(&name) && !known.contains(&name) {
            return Err(Trouble::Item(StoreError::UnnamedOperation { operation: name.into() }));
        }
    }
    Ok(())
}
