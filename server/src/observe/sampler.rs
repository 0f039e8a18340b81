//! How many records there are, told every now and then: gauges that nobody's request moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use samekey_core::Policy;
use samekey_core::claim::State;

use super::count::begin;
use super::{OTHER, label, queued, table as name};
use crate::store::{Store, StoreError};

/// Remembers what it told, so that what is gone can be told to be nought.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    told: BTreeSet<String>,
}

impl Sampler {
    /// Looks once. `known` are the operations of today, `contract` finds the one that a name belongs to.
    pub(crate) async fn look(
        &mut self,
        store: &Store,
        known: impl Iterator<Item = String>,
        contract: impl Fn(&str) -> Option<Arc<Policy>>,
    ) -> Result<(), StoreError> {
        let sample = store.sample().await?;
        let mut records: BTreeMap<String, BTreeMap<&str, u64>> = BTreeMap::new();
        let mut oldest: BTreeMap<String, f64> = BTreeMap::new();
        let of = |operation: &str| contract(operation).filter(|_| !operation.is_empty());
        let named = |policy: &Option<Arc<Policy>>| {
            policy.as_ref().map_or_else(|| OTHER.to_owned(), |policy| policy.operation.to_string())
        };
        for (operation, state, count) in &sample.records {
            *records.entry(named(&of(operation))).or_default().entry(state.as_str()).or_default() += count;
        }
        for (operation, settle_after) in &sample.uncertain {
            let policy = of(operation);
            // It became uncertain `probe_after` before it may be settled.
            let probe_after = policy.as_deref().map_or_else(|| Policy::new(OTHER).probe_after(), Policy::probe_after);
            let since = settle_after.as_millis() as f64 / 1e3 - probe_after.as_secs_f64();
            oldest.entry(named(&policy)).and_modify(|earliest| *earliest = earliest.min(since)).or_insert(since);
        }
        for operation in known.chain([OTHER.to_owned()]).chain(records.keys().cloned()) {
            if self.told.insert(operation.clone()) {
                begin(&label(true, &operation));
            }
        }
        for operation in &self.told {
            for state in State::ALL {
                let count = records.get(operation).and_then(|states| states.get(state.as_str())).copied().unwrap_or(0);
                gauge!(name::RECORDS, "operation" => operation.clone(), "state" => state.as_str()).set(count as f64);
            }
            gauge!(name::UNCERTAIN_OLDEST, "operation" => operation.clone())
                .set(oldest.get(operation).copied().unwrap_or(0.0));
        }
        gauge!(name::STORE_SIZE).set(sample.size_bytes as f64);
        queued(store.queue());
        Ok(())
    }
}

/// How often it looks.
pub(crate) const EVERY: Duration = Duration::from_secs(15);
