//! The time that certainly passed, as the store keeps it.

use std::time::Duration;

use rusqlite::Connection;
use samekey_core::Timestamp;
use samekey_core::claim::passed::{self, Kept};

use super::Shared;
use crate::clock::Moment;

/// How often it is written down. A crash loses nothing: what nobody wrote counts as time that nobody measured.
const KEPT_EVERY: Duration = Duration::from_secs(3600);

/// Behind the wall clock by more than this, the log says why things are remembered for longer.
const WORTH_A_WORD: Duration = Duration::from_secs(2 * 86_400);

#[derive(Debug)]
pub(super) struct Passed {
    clock: passed::Passed,
    written: Duration,
}

impl Passed {
    pub(super) fn resume(conn: &Connection, created_at: Timestamp, moment: Moment) -> rusqlite::Result<Self> {
        let Moment { wall, monotonic } = moment;
        let clock = passed::Passed::resume(read(conn, created_at)?, wall, monotonic);
        let behind = wall.since(clock.now(monotonic));
        if behind > WORTH_A_WORD {
            tracing::info!(
                event = "memory_behind",
                days = behind.as_secs() / 86_400,
                "nobody measured the time while no process ran, or the clock was set: keys are remembered for longer by so many days"
            );
        }
        Ok(Self { clock, written: monotonic })
    }

    /// Whatever the wall clock shows.
    pub(super) fn measured(&self, moment: Moment) -> Timestamp {
        self.clock.now(moment.monotonic)
    }

    /// By when the sweeper forgets: never ahead of the wall clock, either.
    pub(super) fn now(&self, moment: Moment) -> Timestamp {
        self.measured(moment).min(moment.wall)
    }

    /// Writes it down, if that is due.
    pub(super) fn keep(&mut self, conn: &Connection, created_at: Timestamp, moment: Moment) -> rusqlite::Result<()> {
        if moment.monotonic.saturating_sub(self.written) >= KEPT_EVERY {
            write(conn, read(conn, created_at)?.max(self.clock.kept(moment.wall, moment.monotonic)))?;
            self.written = moment.monotonic;
        }
        Ok(())
    }

    /// The writer's last word. If it cannot be written, the store has other troubles.
    pub(super) fn keep_at_end(&self, conn: &Connection, created_at: Timestamp, shared: &Shared) {
        let Moment { wall, monotonic } = shared.clock.moment();
        let kept = conn.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
            write(conn, read(conn, created_at)?.max(self.clock.kept(wall, monotonic)))?;
            conn.execute_batch("COMMIT")
        });
        if let Err(error) = kept {
            tracing::debug!(store = %shared.place, %error, "the time that passed was not written down");
        }
    }
}

fn read(conn: &Connection, created_at: Timestamp) -> rusqlite::Result<Kept> {
    conn.prepare_cached(
        "SELECT (SELECT value FROM samekey_meta WHERE name = 'passed'), \
         (SELECT value FROM samekey_meta WHERE name = 'passed_wall')",
    )?
    .query_row([], |row| {
        let (passed, wall): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(passed.zip(wall).map_or(Kept::at_birth(created_at), |(passed, wall)| Kept {
            passed: Timestamp::from_millis(passed),
            wall: Timestamp::from_millis(wall),
        }))
    })
}

fn write(conn: &Connection, kept: Kept) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO samekey_meta VALUES ('passed', ?1), ('passed_wall', ?2) \
         ON CONFLICT DO UPDATE SET value = excluded.value",
    )?
    .execute([kept.passed.as_millis(), kept.wall.as_millis()])
    .map(drop)
}
