//! What kind of actor the records belong to. Another kind gives every caller another id, so that no retry would
//! find its record: a change is refused while records are remembered, unless the operator accepts it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use samekey_core::Timestamp;

use super::{Sqlite, open};
use crate::store::StoreError;

impl Sqlite {
    /// Once, at the start, on a connection of its own: it need not queue behind claims.
    pub(in crate::store) async fn keep_actor_kind(
        &self,
        kind: String,
        remember: Duration,
        accept_change: bool,
    ) -> Result<Option<String>, StoreError> {
        let (path, busy) = (self.readers.path.clone(), self.readers.patience);
        let (place, now) = (self.shared.place.clone(), self.shared.clock.now());
        let kept = tokio::task::spawn_blocking(move || keep(&path, busy, &kind, now - remember, accept_change)).await;
        kept.map_err(|_| StoreError::Closed)?.map_err(|error| StoreError::sqlite(&place, error))
    }
}

fn keep(
    path: &Path,
    busy_timeout: Duration,
    kind: &str,
    forgotten: Timestamp,
    accept_change: bool,
) -> rusqlite::Result<Option<String>> {
    let mut conn = open::beside_the_writer(path, busy_timeout)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let kept: Option<String> =
        tx.query_row("SELECT value FROM samekey_meta WHERE name = 'actor_kind'", [], |row| row.get(0)).optional()?;
    match kept {
        Some(kept) if kept == kind => return Ok(None),
        Some(kept) if !accept_change && has_live_records(&tx, forgotten)? => return Ok(Some(kept)),
        _ => {}
    }
    tx.execute(
        "INSERT INTO samekey_meta VALUES ('actor_kind', ?1) ON CONFLICT DO UPDATE SET value = excluded.value",
        [kind],
    )?;
    tx.commit()?;
    Ok(None)
}

/// Records that have not ended, or whose end is still remembered.
fn has_live_records(conn: &Connection, forgotten: Timestamp) -> rusqlite::Result<bool> {
    conn.prepare("SELECT 1 FROM idempotency_keys WHERE finished_at IS NULL OR finished_at > ?1 LIMIT 1")?
        .exists([forgotten.as_millis()])
}
