//! Claims whose holder fell silent: they are judged although nobody asks for their key.

use std::time::Duration;

use samekey_core::claim::Event;

use super::Duty;
use crate::store::{Case, Store, StoreError};

/// Between two looks. A delivery that meets such a claim judges it at once; this is for those that nobody retries.
const PAUSE: Duration = Duration::from_secs(1);

/// Claims of one look.
const PAGE: usize = 128;

#[derive(Debug)]
pub(super) struct Lapse;

impl Duty for Lapse {
    const NAME: &'static str = "lapse";

    async fn attend(&mut self, store: &Store) -> Result<Duration, StoreError> {
        let mut after = None;
        loop {
            let cases = store.lapsed(after, PAGE).await?;
            for case in cases.list {
                judge(store, case).await?;
            }
            match cases.more {
                Some(more) => after = Some(more),
                None => return Ok(PAUSE),
            }
        }
    }
}

/// The store asks again whether this process may judge, under the write lock and after the renewals that wait; here it
/// only saves the write.
async fn judge(store: &Store, case: Case) -> Result<(), StoreError> {
    let Some(policy) = store.policies().of(&case.found.operation, case.configured) else { return Ok(()) };
    if !store.may_judge(policy.lease) {
        return Ok(());
    }
    let id = case.found.id;
    // What came of it is told where it is written.
    store.apply(id, policy, Event::Tick, None).await.map(drop)
}
