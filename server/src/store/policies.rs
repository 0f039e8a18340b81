//! The contracts that this process knows, for what it does to records of its own accord.
//!
//! A delivery brings its contract along; whoever looks after records in the background has to find it by the name
//! under which a record was made. A record whose name nobody made known here belongs to another process: it is
//! expired at the moment it is due, which stands in the record, and otherwise left alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use samekey_core::Policy;

/// Contracts by the names under which records stand.
#[derive(Debug, Default)]
pub struct Policies(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// By name and by former name.
    named: HashMap<String, Arc<Policy>>,
    /// Of everything that no configuration names.
    others: Option<Arc<Policy>>,
    /// Names of other processes that the log has told of.
    foreign: BTreeSet<String>,
}

/// How many foreign names are told of: a line each, and no more memory than that.
const MOST_FOREIGN: usize = 256;

impl Policies {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the contract of an operation known under its name and its aliases; a later one takes its place.
    pub fn add(&self, policy: impl Into<Arc<Policy>>) {
        self.add_under(&policy.into(), None);
    }

    /// The same, and under one name more.
    pub(crate) fn add_under(&self, policy: &Arc<Policy>, also: Option<String>) {
        let mut table = self.table();
        for name in names(policy).chain(also) {
            table.named.insert(name, Arc::clone(policy));
        }
    }

    /// Makes the contract known of all records whose operation is method and path, because nothing named it.
    pub fn add_others(&self, policy: impl Into<Arc<Policy>>) {
        self.table().others = Some(policy.into());
    }

    /// Takes back all that was made known; `again` says what is known from now on. Nobody sees anything between.
    #[cfg_attr(
        not(any(feature = "cli", test)),
        expect(dead_code, reason = "only the binary reads its configuration anew")
    )]
    pub(crate) fn replace(&self, again: impl FnOnce(&Self)) {
        let fresh = Self::default();
        again(&fresh);
        *self.table() = fresh.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    }

    /// For a record of which nothing is known but that it may be any of these: whatever takes longest.
    pub(crate) fn slowest(&self) -> Policy {
        let table = self.table();
        let mut slowest = Policy::new("of another process");
        for policy in table.named.values().chain(&table.others) {
            slowest.probe_after = Some(slowest.probe_after().max(policy.probe_after()));
            slowest.timeout = slowest.timeout.max(policy.timeout);
        }
        slowest
    }

    /// The contract of a record that was made under this name. `configured`: not under method and path.
    pub(crate) fn of(&self, operation: &str, configured: bool) -> Option<Arc<Policy>> {
        let mut table = self.table();
        let others = table.others.as_ref().filter(|_| !configured);
        let found = table.named.get(operation).or(others).map(Arc::clone);
        if found.is_none() && table.foreign.len() < MOST_FOREIGN && table.foreign.insert(operation.to_owned()) {
            tracing::info!(
                event = "foreign_records",
                operation,
                "records of an operation that is not named here are kept: only a process that knows its contract \
                 forgets them"
            );
        }
        found
    }
}

fn names(policy: &Policy) -> impl Iterator<Item = String> {
    std::iter::once(policy.operation.to_string()).chain(policy.aliases.iter().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(found: Option<Arc<Policy>>) -> Option<String> {
        found.map(|policy| policy.operation.to_string())
    }

    #[test]
    fn a_record_is_found_under_each_name_that_it_may_have_been_made_under() {
        let policies = Policies::default();
        policies.add_under(&Arc::new(Policy::new("orders.create").alias("orders.place")), Some("POST /orders".into()));
        for name in ["orders.create", "orders.place", "POST /orders"] {
            assert_eq!(name_of(policies.of(name, true)).as_deref(), Some("orders.create"), "{name}");
        }
        assert!(policies.of("POST /other", false).is_none(), "nobody said what holds for the others");
        policies.add_others(Policy::new("others"));
        assert_eq!(name_of(policies.of("POST /other", false)).as_deref(), Some("others"));
        assert!(policies.of("pay", true).is_none(), "a name of another process is nobody's here");
    }

    #[test]
    fn a_configuration_that_is_read_anew_takes_the_place_of_the_old_one() {
        let policies = Policies::default();
        policies.add(Policy::new("old"));
        policies.add_others(Policy::new("others"));
        policies.replace(|fresh| fresh.add(Policy::new("new")));
        assert!(policies.of("old", true).is_none());
        assert!(policies.of("POST /x", false).is_none());
        assert!(policies.of("new", true).is_some());
    }
}
