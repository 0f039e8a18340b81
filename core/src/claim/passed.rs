//! The time that certainly passed: what the store's memory goes by where a wrong clock would forget too early.
//!
//! The wall clock can be set to any year by anybody. What is forgotten does not come back, so the sweeper forgets by
//! a clock of its own: it starts at the store's creation and goes as the monotonic clock of the process does. While
//! no process runs nobody measures; of that time at most [`MAX_UNSEEN`] is believed to have passed. So it is never
//! ahead of the truth by more than that, however the wall clock is stepped; where it stays behind, something is
//! remembered for longer.

use core::time::Duration;

use crate::time::Timestamp;

/// How much time is believed to have passed between two processes, at most.
pub const MAX_UNSEEN: Duration = Duration::from_secs(86_400);

/// What of it is kept in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The moment that had certainly come.
    pub passed: Timestamp,
    /// What the wall clock showed then.
    pub wall: Timestamp,
}

impl Kept {
    /// A store that was just made.
    pub const fn at_birth(created_at: Timestamp) -> Self {
        Self { passed: created_at, wall: created_at }
    }

    /// Of two processes on one store, the one that saw more is right.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.passed > self.passed { other } else { self }
    }
}

/// The clock of one process.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// What had certainly passed when this process began to measure.
    from: Timestamp,
    /// When that was, on the monotonic clock.
    since: Duration,
}

impl Passed {
    /// This process goes on where another one stopped.
    #[must_use]
    pub fn resume(kept: Kept, wall: Timestamp, monotonic: Duration) -> Self {
        Self { from: kept.passed + wall.since(kept.wall).min(MAX_UNSEEN), since: monotonic }
    }

    /// The moment that has certainly come.
    #[must_use]
    pub fn now(&self, monotonic: Duration) -> Timestamp {
        self.from + monotonic.saturating_sub(self.since)
    }

    /// What the store is to keep.
    #[must_use]
    pub fn kept(&self, wall: Timestamp, monotonic: Duration) -> Kept {
        Kept { passed: self.now(monotonic), wall }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIRTH: Timestamp = Timestamp::from_millis(1_796_000_000_000);
    const fn hours(hours: u64) -> Duration {
        Duration::from_secs(hours * 3600)
    }

    #[test]
    fn it_goes_as_the_monotonic_clock_does_whatever_the_wall_shows() {
        let passed = Passed::resume(Kept::at_birth(BIRTH), BIRTH, hours(5));
        assert_eq!(passed.now(hours(5)), BIRTH);
        assert_eq!(passed.now(hours(8)), BIRTH + hours(3));
        assert_eq!(passed.now(hours(4)), BIRTH, "never back");
    }

    #[test]
    fn between_two_processes_at_most_a_day_passes_and_never_less_than_nothing() {
        for (wall, expected) in [(hours(2), hours(2)), (hours(24), hours(24)), (hours(9000), hours(24))] {
            let passed = Passed::resume(Kept::at_birth(BIRTH), BIRTH + wall, hours(0));
            assert_eq!(passed.now(hours(1)), BIRTH + expected + hours(1), "{wall:?}");
        }
        let stepped_back = Passed::resume(Kept::at_birth(BIRTH), BIRTH - hours(9000), hours(0));
        assert_eq!(stepped_back.now(hours(1)), BIRTH + hours(1));
    }

    #[test]
    fn restarts_under_one_wrong_clock_gain_a_day_once() {
        let mut kept = Kept::at_birth(BIRTH);
        let wrong = BIRTH + hours(9000);
        for restart in 1..=20 {
            let passed = Passed::resume(kept, wrong + hours(restart), hours(0));
            kept = passed.kept(wrong + hours(restart), hours(0));
        }
        assert_eq!(kept.passed, BIRTH + hours(24) + hours(19));
    }
}
