//! When something is tried again.
//!
//! Pauses are drawn with full jitter: anything between nothing and a bound that doubles with every failure, so that
//! clients that failed together do not come back together. `Retry-After` is a floor below that, itself capped, because
//! one absurd answer must not park an intent for years. All of it stands in the record, so a reload shortens nothing.
//!
//! Clocks of devices step. A [`Pause`] therefore knows how long it was: whenever it is looked at and would last longer
//! than that from now on, the clock has gone back, and it is cut to its length. A clock that goes forward ends pauses
//! early, as a night in which the device slept does; a try too early is refused, not harmful. For the same reason the
//! retry budget is looked at only after a try that began when it was spent: whoever comes back after a week, or after a
//! step of a week, hears of the outcome first.

use super::chance::Chance;
use super::config::Retry;
use super::record::{Millis, Pause};

/// `Retry-After` counts for no longer than a day: longer, and it is a mistake or a server that will be another one.
const MAX_FLOOR: Millis = 24 * 3_600_000;
/// Beyond this power of two every bound is at its greatest.
const MAX_DOUBLINGS: u32 = 30;
/// Longer settings are mistakes, and sums of them would overflow.
const MAX_BUDGET: Millis = 10 * 365 * 86_400_000;
/// An hour: neither a request nor a pause lasts longer, and either fits a timer.
const MAX_STEP: Millis = 3_600_000;

impl Retry {
    /// What this says, else what `other` says.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            attempt_timeout_ms: self.attempt_timeout_ms.or(other.attempt_timeout_ms),
            budget_ms: self.budget_ms.or(other.budget_ms),
            base_delay_ms: self.base_delay_ms.or(other.base_delay_ms),
            max_delay_ms: self.max_delay_ms.or(other.max_delay_ms),
        }
    }

    pub(super) fn attempt_timeout(self) -> Millis {
        self.attempt_timeout_ms.unwrap_or(60_000).clamp(1, MAX_STEP)
    }

    pub(super) fn budget(self) -> Millis {
        self.budget_ms.unwrap_or(5 * 86_400_000).clamp(0, MAX_BUDGET)
    }

    fn base_delay(self) -> Millis {
        self.base_delay_ms.unwrap_or(1_000).clamp(1, MAX_STEP)
    }

    pub(super) fn max_delay(self) -> Millis {
        self.max_delay_ms.unwrap_or(300_000).clamp(self.base_delay(), MAX_STEP)
    }

    /// The pause after so many failures in a row.
    pub(super) fn pause(self, failures: u32, floor: Option<Millis>, chance: &mut Chance) -> Millis {
        let bound = self.base_delay() << failures.saturating_sub(1).min(MAX_DOUBLINGS);
        match floor {
            // Whoever was told the same moment need not come back in the same one.
            Some(floor) => floor.clamp(0, MAX_FLOOR) + chance.up_to(self.base_delay()),
            None => chance.up_to(bound.min(self.max_delay())),
        }
    }
}

impl Pause {
    pub(super) fn new(now: Millis, length: Millis) -> Self {
        Self { until: now.saturating_add(length), length }
    }

    /// When it ends, seen from now.
    pub(super) fn ends(self, now: Millis) -> Millis {
        self.until.min(now.saturating_add(self.length))
    }

    /// Cuts off what a clock that went back would add.
    pub(super) fn seen(&mut self, now: Millis) {
        self.until = self.ends(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pauses_stay_within_their_bounds(
            failures in 0..u32::MAX, floor in proptest::option::of(0..Millis::MAX), seed: [u8; 32],
            base: i64, max: i64,
        ) {
            let retry = Retry { base_delay_ms: Some(base), max_delay_ms: Some(max), ..Retry::default() };
            let pause = retry.pause(failures, floor, &mut Chance::new(seed));
            let capped = floor.map(|floor| floor.min(MAX_FLOOR));
            prop_assert!(pause >= capped.unwrap_or(0));
            prop_assert!(pause <= capped.map_or(retry.max_delay(), |floor| floor + retry.base_delay()));
        }

        #[test]
        fn a_clock_that_goes_back_lengthens_no_pause(length in 0..MAX_FLOOR, steps in proptest::collection::vec(-MAX_FLOOR..MAX_FLOOR, 1..9)) {
            let mut now = 1_796_000_000_000;
            let mut pause = Pause::new(now, length);
            for step in steps {
                now += step;
                pause.seen(now);
                prop_assert!(pause.until <= now + length);
            }
        }
    }

    #[test]
    fn the_jitter_is_full_and_its_bound_doubles() {
        let mut chance = Chance::new([7; 32]);
        for failures in 1..=12 {
            let bound = (1000_i64 << (failures - 1)).min(300_000);
            let drawn: alloc::vec::Vec<_> =
                (0..400).map(|_| Retry::default().pause(failures, None, &mut chance)).collect();
            assert!(drawn.iter().all(|pause| (0..=bound).contains(pause)));
            assert!(drawn.iter().any(|pause| *pause < bound / 10), "low ones are drawn, too");
            assert!(drawn.iter().any(|pause| *pause > bound * 9 / 10), "and high ones");
        }
    }
}
