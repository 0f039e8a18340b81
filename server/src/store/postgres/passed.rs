//! The time that certainly passed, as the store keeps it.

use std::time::Duration;

use samekey_core::Timestamp;
use samekey_core::claim::passed::{Kept, Passed};

use super::database::Database;
use super::error::Trouble;
use super::pool::{Link, Speak};

/// How often it is written down. A crash loses nothing: what nobody wrote counts as time that nobody measured.
const KEPT_EVERY: Duration = Duration::from_secs(3600);

/// What this process measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    clock: Option<Passed>,
    written: Duration,
}

impl Measured {
    /// Goes on where another process stopped.
    pub(super) fn resume(&mut self, kept: Kept, wall: Timestamp, monotonic: Duration) {
        self.clock = Some(Passed::resume(kept, wall, monotonic));
        self.written = monotonic;
    }

    /// Whatever the wall clock shows.
    pub(super) fn measured(&self, monotonic: Duration) -> Timestamp {
        self.clock.map_or(Timestamp::from_millis(i64::MIN), |clock| clock.now(monotonic))
    }

    /// By when the sweeper forgets: never ahead of the wall clock, either.
    pub(super) fn now(&self, wall: Timestamp, monotonic: Duration) -> Timestamp {
        self.measured(monotonic).min(wall)
    }

    /// What is to be written down, if that is due, or at the end.
    fn due(&mut self, wall: Timestamp, monotonic: Duration, last: bool) -> Option<Kept> {
        let clock = self.clock?;
        let due = last || monotonic.saturating_sub(self.written) >= KEPT_EVERY;
        due.then(|| {
            self.written = monotonic;
            clock.kept(wall, monotonic)
        })
    }
}

/// What the store keeps.
pub(super) async fn read(link: &Link, created_at: Timestamp) -> Result<Kept, Trouble> {
    let row = link
        .query_one(
            "SELECT (SELECT value::bigint FROM samekey_meta WHERE name = 'passed'), \
             (SELECT value::bigint FROM samekey_meta WHERE name = 'passed_wall')",
            &[],
        )
        .await?;
    let (passed, wall): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(passed.zip(wall).map_or(Kept::at_birth(created_at), |(passed, wall)| Kept {
        passed: Timestamp::from_millis(passed),
        wall: Timestamp::from_millis(wall),
    }))
}

/// Writes it down, if that is due. Neither moves back: of several hosts, the one that saw more is right.
pub(super) async fn keep(link: &Link, db: &Database, last: bool) -> Result<(), Trouble> {
    let (wall, monotonic) = (db.now(), db.clock.monotonic());
    let due = db.measured().due(wall, monotonic, last);
    let Some(Kept { passed, wall }) = due else { return Ok(()) };
    link.execute(
        "INSERT INTO samekey_meta AS m VALUES ('passed', $1), ('passed_wall', $2) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE m.value::bigint < excluded.value::bigint",
        &[&passed.as_millis().to_string(), &wall.as_millis().to_string()],
    )
    .await?;
    Ok(())
}
