//! Claims whose holder fell silent: they are judged although nobody asks for their key.

use std::sync::Arc;
use std::time::Duration;

use samekey_core::claim::{Event, State};

use super::Duty;
use super::recover::age_s;
use crate::store::{Applied, Case, Store, StoreError};

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
    let Applied { record, refused } = store.apply(id, Arc::clone(&policy), Event::Tick, None).await?;
    let (Some(record), None) = (record, refused) else { return Ok(()) };
    let key_hash = store.log_hash("key", case.key.expose());
    let (attempt, age_s) = (record.fence.attempt, age_s(&record, store.now()));
    if record.state == State::Uncertain {
        tracing::warn!(
            event = "uncertain",
            operation = case.found.operation,
            record = id.0,
            attempt,
            key_hash,
            reason = record.reason.map(samekey_core::claim::Reason::as_str),
            age_s,
            "outcome unknown: whoever ran the command fell silent"
        );
    } else {
        tracing::info!(
            event = "settled",
            operation = case.found.operation,
            record = id.0,
            attempt,
            key_hash,
            state = record.state.as_str(),
            by = "lease",
            age_s,
            "whoever ran the command fell silent before its first external call: it may run again"
        );
    }
    Ok(())
}
