//! Sweeping: a turn whenever something is due, one after the other while there is more.

use std::time::Duration;

use super::Duty;
use crate::observe;
use crate::store::{Store, StoreError, Swept};

/// Between two looks: what comes due meanwhile is swept together. Nobody waits for it, because whoever reads a record
/// compares its times with the clock.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// Records of other processes come due without a word here.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Sweep;

impl Duty for Sweep {
    const NAME: &'static str = "sweep";

    async fn attend(&mut self, store: &Store) -> Result<Duration, StoreError> {
        let Swept { more, next, expired, forgotten } = store.sweep().await?;
        if expired + forgotten > 0 {
            observe::swept(expired, forgotten);
        }
        if more {
            return Ok(Duration::ZERO);
        }
        Ok(next.unwrap_or(LONGEST_PAUSE).clamp(LEAST_PAUSE, LONGEST_PAUSE))
    }
}
