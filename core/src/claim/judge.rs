//! Whether this process may call a claim lapsed.
//!
//! A process that just started, that could not write for a third of a lease, or that saw the wall clock and the
//! monotonic clock part, does not know whether the holders could renew: it judges nothing for a full lease.

use alloc::vec::Vec;
use core::time::Duration;

/// How far the two clocks may part between two looks before the wall clock counts as stepped.
const MAX_CLOCK_DRIFT: Duration = Duration::from_secs(1);

/// One disturbance: when (time since the process started), and how long nobody could write.
#[derive(Clone, Copy, Debug)]
struct Disturbance {
    at: Duration,
    length: Duration,
}

/// What this process saw that keeps it from judging. All times are monotonic, since the start of the process.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Newest last; lengths decrease, because a longer disturbance makes the shorter ones before it irrelevant.
    disturbances: Vec<Disturbance>,
    last: Option<(Duration, i64)>,
    /// When somebody was last seen to have set the wall clock.
    parted: Option<Duration>,
}

impl Judge {
    /// A process that just started.
    pub fn new() -> Self {
        Self {
            disturbances: alloc::vec![Disturbance { at: Duration::ZERO, length: Duration::MAX }],
            last: None,
            parted: None,
        }
    }

    /// Nobody could write for `length`, until `at`.
    pub fn stalled(&mut self, at: Duration, length: Duration) {
        while self.disturbances.last().is_some_and(|earlier| earlier.length <= length) {
            self.disturbances.pop();
        }
        self.disturbances.push(Disturbance { at, length });
    }

    /// Compares how far both clocks moved since the last look.
    pub fn look(&mut self, at: Duration, wall_millis: i64) {
        if let Some((then, wall_then)) = self.last {
            let monotonic = i64::try_from(at.saturating_sub(then).as_millis()).unwrap_or(i64::MAX);
            let wall = wall_millis.saturating_sub(wall_then);
            if wall.abs_diff(monotonic) > u64::try_from(MAX_CLOCK_DRIFT.as_millis()).unwrap_or(u64::MAX) {
                self.stalled(at, Duration::MAX);
                self.parted = Some(at);
            }
        }
        self.last = Some((at, wall_millis));
    }

    /// Whether claims under this lease may be called lapsed now.
    pub fn may_judge(&self, at: Duration, lease: Duration) -> bool {
        self.disturbances.iter().all(|seen| seen.length <= lease / 3 || at >= seen.at.saturating_add(lease))
    }

    /// Whether a moment that the store holds has passed if the clock says so, and so has what it bounds: nobody set the
    /// clock within `span`, the longest time for which anything is bounded by such a moment.
    pub fn trusts_times(&self, at: Duration, span: Duration) -> bool {
        self.parted.is_none_or(|then| at >= then.saturating_add(span))
    }
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);
    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn judges_nothing_for_a_lease_after_the_start() {
        let judge = Judge::new();
        assert!(!judge.may_judge(s(29), LEASE));
        assert!(judge.may_judge(s(30), LEASE));
        assert!(judge.may_judge(s(1), s(1)), "each lease on its own");
        assert!(judge.trusts_times(s(1), s(150)), "the clock was not seen to be set");
    }

    #[test]
    fn judges_nothing_for_a_lease_after_a_stall_of_a_third() {
        let mut judge = Judge::new();
        judge.stalled(s(100), s(11));
        judge.stalled(s(101), s(1));
        assert!(!judge.may_judge(s(129), LEASE));
        assert!(judge.may_judge(s(130), LEASE));
        assert!(judge.may_judge(s(110), s(90)), "11 s are less than a third of 90 s");
    }

    #[test]
    fn a_longer_stall_later_makes_the_shorter_ones_irrelevant() {
        let mut judge = Judge::new();
        for at in 1..1000 {
            judge.stalled(s(at), s(1));
        }
        assert!(judge.disturbances.len() <= 2, "bounded");
    }

    #[test]
    fn judges_nothing_for_a_lease_after_the_clocks_part() {
        for step_millis in [3_600_000, -3_600_000, 1_500] {
            let mut judge = Judge::new();
            judge.look(s(100), 1_000_000);
            judge.look(s(101), 1_001_000);
            assert!(judge.may_judge(s(101), LEASE));
            judge.look(s(102), 1_002_000 + step_millis);
            assert!(!judge.may_judge(s(131), LEASE), "{step_millis}");
            assert!(judge.may_judge(s(132), LEASE), "{step_millis}");
            assert!(!judge.trusts_times(s(251), s(150)), "{step_millis}");
            assert!(judge.trusts_times(s(252), s(150)), "{step_millis}");
        }
    }
}
