//! Giving back disk space: after a large sweep, a little at a time.

use std::time::Duration;

use super::Duty;
use crate::store::{Store, StoreError};

/// Between two turns: whoever waits for the disk has it most of the time.
const PAUSE: Duration = Duration::from_millis(20);

/// Space does not become free in a hurry.
const LOOK_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Vacuum;

impl Duty for Vacuum {
    const NAME: &'static str = "vacuum";

    async fn attend(&mut self, store: &Store) -> Result<Duration, StoreError> {
        Ok(if store.vacuum().await? { PAUSE } else { LOOK_EVERY })
    }
}
