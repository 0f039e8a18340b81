//! Moments as the store's clock tells them: integer Unix milliseconds.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment in Unix milliseconds. Arithmetic saturates: a clock or a setting gone wild must not panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Unix milliseconds as a moment.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The moment as Unix milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        u64::try_from(self.0.saturating_sub(earlier.0)).map_or(Duration::ZERO, Duration::from_millis)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end + Duration::MAX, end);
        assert_eq!(Timestamp::from_millis(i64::MIN) - Duration::from_secs(1), Timestamp::from_millis(i64::MIN));
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
        assert_eq!(Timestamp::from_millis(9).since(Timestamp::from_millis(5)), Duration::from_millis(4));
    }
}
