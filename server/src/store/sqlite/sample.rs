//! The counts, and the oldest uncertain record of each operation: one step of an index each, never a scan.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use samekey_core::Timestamp;
use samekey_core::claim::State;

use super::{Trouble, open};
use crate::store::Sample;

/// Both queries, for the test that looks at their plans.
pub(super) const COUNTS: &str = "SELECT operation, state, records FROM samekey_counts";
pub(super) const OLDEST: &str = "SELECT settle_after FROM idempotency_keys \
    WHERE state = 'uncertain' AND (CASE WHEN configured THEN operation ELSE '' END) = ?1 \
    ORDER BY settle_after LIMIT 1";

pub(super) fn take(conn: &Connection, path: &Path) -> Result<Sample, Trouble> {
    let mut sample = Sample::default();
    let mut counts = conn.prepare_cached(COUNTS)?;
    let mut oldest = conn.prepare_cached(OLDEST)?;
    let mut rows = counts.query([])?;
    while let Some(row) = rows.next()? {
        let (name, state): (String, String) = (row.get(0)?, row.get(1)?);
        let records = u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
        // A state of a version to come is its own to count.
        let Some(state) = State::from_name(&state) else { continue };
        if state == State::Uncertain
            && records > 0
            && let Some(Some(millis)) = oldest.query_row([&name], |row| row.get::<_, Option<i64>>(0)).optional()?
        {
            sample.uncertain.push((name.clone(), Timestamp::from_millis(millis)));
        }
        sample.records.push((name, state, records));
    }
    let size = |file: &Path| std::fs::metadata(file).map_or(0, |about| about.len());
    sample.size_bytes = size(path) + size(&open::beside(path, "-wal"));
    Ok(sample)
}
