//! The horizon: the moment before which absence proves nothing, because a piece of memory was lost.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use samekey_core::Timestamp;
use samekey_core::claim::Event;

use super::claims::{self, Setting};
use super::known::Known;
use super::{Sqlite, Trouble, moved, open};
use crate::store::{Change, Note, Policies, RecordId, StoreError};

/// How a horizon came about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A backup is being restored.
    Restore,
    /// It stands in the configuration, and is set once.
    Configured,
}

impl Source {
    fn why(self) -> &'static str {
        match self {
            Self::Restore => "a backup was restored",
            Self::Configured => "a horizon was configured",
        }
    }
}

impl Sqlite {
    /// Once for each value, at the start. `None`: this one was set before.
    pub(in crate::store) async fn set_horizon(
        &self,
        horizon: Timestamp,
        policies: Arc<Policies>,
    ) -> Result<Option<usize>, StoreError> {
        let (path, busy) = (self.readers.path.clone(), self.readers.patience);
        let (place, now) = (Arc::clone(&self.shared.place), self.shared.clock.now());
        tokio::task::spawn_blocking(move || set_once(&path, busy, &place, horizon, now, &policies))
            .await
            .map_err(|_| StoreError::Closed)?
    }
}

fn set_once(
    path: &Path,
    busy_timeout: Duration,
    place: &Arc<str>,
    horizon: Timestamp,
    now: Timestamp,
    policies: &Policies,
) -> Result<Option<usize>, StoreError> {
    let of = |error| StoreError::sqlite(place, error);
    let mut conn = open::beside_the_writer(path, busy_timeout).map_err(of)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
    let kept = tx.query_row("SELECT value FROM samekey_meta WHERE name = 'horizon_configured'", [], |row| row.get(0));
    if kept.optional().map_err(of)? == Some(horizon.as_millis()) {
        return Ok(None);
    }
    note(&tx, "horizon_configured", horizon).map_err(of)?;
    let changed = set(&tx, place, Source::Configured, horizon, now, policies)?;
    tx.commit().map_err(of)?;
    Ok(Some(changed))
}

/// Moves the horizon and makes uncertain whatever a later attempt may have run, in the caller's transaction. Says how
/// many records that were.
pub(super) fn set(
    conn: &Connection,
    place: &Arc<str>,
    source: Source,
    horizon: Timestamp,
    now: Timestamp,
    policies: &Policies,
) -> Result<usize, StoreError> {
    let of = |error| StoreError::sqlite(place, error);
    conn.execute(
        "INSERT INTO samekey_meta VALUES ('horizon', ?1) \
         ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
        [horizon.as_millis()],
    )
    .map_err(of)?;
    let created_at = open::created_at(conn).map_err(of)?;
    let mut known = Known::default();
    let moved = Vec::new();
    let mut setting = Setting { place, now, latest: now, may_judge: &|_| false, created_at, known: &mut known, moved };
    let longest = Arc::new(policies.slowest());
    let open: Vec<(i64, String, bool)> = conn
        .prepare(
            "SELECT id, operation, configured FROM idempotency_keys \
             WHERE state IN ('in_progress', 'released', 'uncertain')",
        )
        .and_then(|mut open| open.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect())
        .map_err(of)?;
    let mut changed = 0;
    for (id, operation, configured) in open {
        let policy = policies.of(&operation, configured).unwrap_or_else(|| Arc::clone(&longest));
        let note = Note { who: None, why: Some(source.why().into()) };
        let change = Change { id: RecordId(id), policy, event: Event::Horizon, response: None, note };
        match claims::apply(conn, &change, &mut setting) {
            Ok((_, whose)) => changed += usize::from(whose.is_some()),
            Err(Trouble::Sqlite(error)) => return Err(of(error)),
            // A record that cannot be read could run again as if nothing had been lost.
            Err(Trouble::Item(error)) => return Err(error),
        }
    }
    moved::count(conn, &setting.moved).map_err(of)?;
    Ok(changed)
}

/// Keeps a moment under this name.
pub(super) fn note(conn: &Connection, name: &str, at: Timestamp) -> rusqlite::Result<()> {
    conn.execute(
        "INSERT INTO samekey_meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
        (name, at.as_millis()),
    )
    .map(drop)
}

/// The moment under this name, if it was kept.
pub(super) fn noted(conn: &Connection, name: &str) -> rusqlite::Result<Option<Timestamp>> {
    let kept: Option<i64> =
        conn.query_row("SELECT value FROM samekey_meta WHERE name = ?1", [name], |row| row.get(0)).optional()?;
    Ok(kept.map(Timestamp::from_millis))
}
