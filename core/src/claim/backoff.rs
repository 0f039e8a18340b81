//! When an outcome that is still unknown is looked at again.
//!
//! The pause doubles from look to look. Half of it is chance: records that one outage made uncertain come apart, and
//! the other half keeps a service that struggles from being asked again at once.

use core::time::Duration;

/// The pause after the first look, at most.
pub const FIRST: Duration = Duration::from_secs(5);

/// The longest pause: whoever repaired the service waits no longer than this for its records.
pub const LAST: Duration = Duration::from_secs(3600);

/// The pause after a look that had `looks` before it: at least half of [`FIRST`] times two to the power of `looks`, at
/// most the whole of it, and never more than [`LAST`]. `chance` is any number; the same one gives the same pause.
#[must_use]
pub fn pause(looks: u32, chance: u32) -> Duration {
    let doubled = 1_u32.checked_shl(looks).and_then(|times| FIRST.checked_mul(times));
    let half = doubled.map_or(LAST, |whole| whole.min(LAST)) / 2;
    let share = half.as_millis() * u128::from(chance) / u128::from(u32::MAX);
    half + Duration::from_millis(u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_an_hour_and_half_of_it_is_chance() {
        for (looks, whole_s) in
            [(0, 5), (1, 10), (2, 20), (9, 2560), (10, 3600), (31, 3600), (32, 3600), (u32::MAX, 3600)]
        {
            let whole = Duration::from_secs(whole_s);
            assert_eq!(pause(looks, 0), whole / 2, "{looks}");
            assert_eq!(pause(looks, u32::MAX), whole, "{looks}");
            let between = pause(looks, u32::MAX / 3);
            assert!(whole / 2 < between && between < whole, "{looks}: {between:?}");
            assert_eq!(pause(looks, u32::MAX / 3), between, "no chance of its own");
        }
    }
}
