//! The one place that asks what time it is.
//!
//! Two hands: the wall clock dates records and can be stepped by anybody; the monotonic one measures how long
//! something took. They are read together, so that whoever compares them sees when they part.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use samekey_core::Timestamp;

/// When this process first asked for the time.
static START: OnceLock<Instant> = OnceLock::new();

/// Wall and monotonic time. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(Instant),
    Manual(Arc<Mutex<Moment>>),
}

/// Both hands at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// Since the start of the process.
    pub monotonic: Duration,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System(*START.get_or_init(Instant::now)))
    }

    /// A clock that stands still until its hands are moved, for tests.
    pub fn manual(wall: Timestamp) -> (Self, Hands) {
        let moment = Arc::new(Mutex::new(Moment { wall, monotonic: Duration::ZERO }));
        (Self(Source::Manual(Arc::clone(&moment))), Hands(moment))
    }

    /// Both hands.
    pub fn moment(&self) -> Moment {
        match &self.0 {
            Source::System(start) => {
                // A clock set before 1970 is as wrong as one that stands at 1970.
                let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let millis = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
                Moment { wall: Timestamp::from_millis(millis), monotonic: start.elapsed() }
            }
            Source::Manual(moment) => *moment.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The wall clock.
    pub fn now(&self) -> Timestamp {
        self.moment().wall
    }

    /// Since the start of the process.
    pub fn monotonic(&self) -> Duration {
        self.moment().monotonic
    }

    /// Until `duration` has passed on this clock's monotonic hand.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let until = self.monotonic().saturating_add(duration);
        loop {
            let left = until.saturating_sub(self.monotonic());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(self.nap(left)).await;
        }
    }

    /// For how long to sleep in reality until `duration` passed on this clock, at most.
    pub(crate) fn nap(&self, duration: Duration) -> Duration {
        match self.0 {
            Source::System(_) => duration,
            Source::Manual(_) => duration.min(Duration::from_millis(5)),
        }
    }
}

/// Moves a manual clock.
#[derive(Clone, Debug)]
pub struct Hands(Arc<Mutex<Moment>>);

impl Hands {
    /// Time passes: both hands move.
    pub fn advance(&self, duration: Duration) {
        let mut moment = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moment.wall = moment.wall + duration;
        moment.monotonic = moment.monotonic.saturating_add(duration);
    }

    /// Somebody sets the wall clock; no time passes.
    pub fn set_wall(&self, wall: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wall = wall;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hands_of_a_manual_clock_move_apart() {
        let (clock, hands) = Clock::manual(Timestamp::from_millis(1_000));
        hands.advance(Duration::from_millis(5));
        assert_eq!(
            clock.clone().moment(),
            Moment { wall: Timestamp::from_millis(1_005), monotonic: Duration::from_millis(5) }
        );
        hands.set_wall(Timestamp::from_millis(7));
        assert_eq!((clock.now().as_millis(), clock.monotonic().as_millis()), (7, 5));
    }

    #[test]
    fn all_system_clocks_show_the_same_time() {
        let (one, other) = (Clock::system().monotonic(), Clock::system().monotonic());
        assert!(other >= one && other - one < Duration::from_secs(1));
    }
}
