//! A turn of the sweeper under the write lock: what is due, oldest first, until its time is up.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};
use samekey_core::claim::{Event, State};
use samekey_core::{Policy, Timestamp};

use super::claims::{self, Setting};
use super::{Change, Trouble};
use crate::store::{Applied, Note, Policies, RecordId, Swept};

/// How long a turn takes at most: a claim of the same batch waits for so long.
const TURN: Duration = Duration::from_millis(2);

/// The most records of a turn, so that the list of them is bounded too.
const MOST: usize = 256;

/// The contract of a record of another process: that its answer is over stands in the record itself.
static FOREIGN: LazyLock<Arc<Policy>> = LazyLock::new(|| Arc::new(Policy::new("of another process")));

/// What is due, and how to find its contract.
struct Due {
    id: RecordId,
    operation: String,
    configured: bool,
}

/// Says how many pages it wrote, more or less.
pub(super) fn sweep(
    conn: &Connection,
    policies: &Policies,
    setting: &mut Setting<'_>,
) -> Result<(Swept, usize), Trouble> {
    let began = Instant::now();
    let due = due(conn, setting.now)?;
    let mut swept = Swept { more: due.len() == MOST, ..Swept::default() };
    let mut pages = 0;
    for Due { id, operation, configured } in due {
        if began.elapsed() >= TURN {
            swept.more = true;
            break;
        }
        let policy = policies.of(&operation, configured).unwrap_or_else(|| Arc::clone(&FOREIGN));
        let event = Event::Sweep { key_time: None, forget_limit: Timestamp::from_millis(i64::MIN) };
        let (Applied { record, .. }, changed) =
            claims::apply(conn, &Change { id, policy, event, response: None, note: Note::default() }, setting)?;
        pages += 2;
        if changed.is_some() && record.is_some_and(|record| record.state == State::Expired) {
            swept.expired += 1;
        }
    }
    swept.next = conn
        .prepare_cached(
            "SELECT due_at FROM idempotency_keys WHERE due_at IS NOT NULL AND state IN ('completed', 'failed') \
             ORDER BY due_at LIMIT 1",
        )?
        .query_row([], |row| row.get(0))
        .optional()?
        .map(Timestamp::from_millis);
    Ok((swept, pages))
}

fn due(conn: &Connection, now: Timestamp) -> rusqlite::Result<Vec<Due>> {
    conn.prepare_cached(
        "SELECT id, operation, configured FROM idempotency_keys WHERE due_at <= ?1 \
         AND state IN ('completed', 'failed') ORDER BY due_at LIMIT ?2",
    )?
    .query_map((now.as_millis(), MOST as i64), |row| {
        Ok(Due { id: RecordId(row.get(0)?), operation: row.get(1)?, configured: row.get(2)? })
    })?
    .collect()
}
