//! Asking the outside world whether a command whose outcome nobody knows took effect.
//!
//! ```
//! # use samekey::{Answer, Policy, Probe, Probed, Recovery, Store};
//! # async fn find_order(_key: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
//! # fn start(store: &Store) {
//! let policy = Policy::new("orders.create").recovery(Recovery::Probe);
//! store.probe("orders.create", Probe::new(|about| async move {
//!     Ok::<_, std::io::Error>(match find_order(&about.provider_key).await? {
//!         Some(order) => Probed::Done(Answer::json(http::StatusCode::CREATED, &order)),
//!         None => Probed::Absent,                    // it did not happen, and is not under way
//!     })                                             // an error settles nothing: it is asked again later
//! }));
//! # }
//! ```
//!
//! A probe belongs to the store, because the store asks: in the background, one process per record, at or after
//! `settle_after`, when nothing of the command can be under way any more. What it says counts only if the record is
//! still as it was when it was asked about. Whether an operation is settled by its probe stands in its policy.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use samekey_core::claim::Reason;
use samekey_core::{Actor, Key};

use crate::command::Answer;
use crate::store::Effect;

/// The command that a probe is asked about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct About {
    /// Whose it is.
    pub actor: Actor,
    /// The name under which its record was made.
    pub operation: String,
    /// Its key.
    pub key: Key,
    /// How often it was claimed. 0: not known; its record was lost with the time after a backup.
    pub attempt: u32,
    /// What the handler got as [`Running::provider_key`](crate::Running::provider_key), or in `Samekey-Provider-Key`.
    pub provider_key: String,
    /// The external calls that stand in its journal, with what each got as its key.
    pub effects: Vec<Effect>,
    /// Why the outcome is unknown.
    pub reason: Option<Reason>,
}

/// What a probe found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// It happened, or was refused for good: this is its answer. It is stored and replayed as the handler's own would
    /// have been; 2xx and 3xx complete the command, others fail it.
    Done(Answer),
    /// It did not happen and is not under way: the command may run again.
    Absent,
    /// Neither is sure; in words for the log. It is asked again later.
    Unclear(String),
}

/// An error says why nobody could be asked.
type Said = Result<Probed, Box<dyn std::error::Error + Send + Sync>>;
type Ask = dyn Fn(About) -> BoxFuture<'static, Said> + Send + Sync;

/// How to ask about the commands of one operation.
#[derive(Clone)]
pub struct Probe {
    ask: Arc<Ask>,
    pub(crate) timeout: Duration,
    pub(crate) max_age: Duration,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("timeout", &self.timeout).field("max_age", &self.max_age).finish_non_exhaustive()
    }
}

impl Probe {
    /// How long a question may take, unless it is said otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(5);
    /// For how long it is asked, unless it is said otherwise.
    pub const MAX_AGE: Duration = Duration::from_secs(86_400);

    /// Asks by this function. It must find what the handler does from the moment at which it does it: an answer from a
    /// replica that lags, or from a cache, makes a second effect.
    pub fn new<F, Fut, E>(ask: F) -> Self
    where
        F: Fn(About) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Probed, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let ask = move |about| -> BoxFuture<'static, Said> {
            let asked = ask(about);
            Box::pin(async move { asked.await.map_err(Into::into) })
        };
        Self { ask: Arc::new(ask), timeout: Self::TIMEOUT, max_age: Self::MAX_AGE }
    }

    /// How long a question may take: then it is given up, and asked again later.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long after `settle_after` it is still asked. Then only an operator settles, until the record is given up.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    pub(crate) fn ask(&self, about: About) -> BoxFuture<'static, Said> {
        (self.ask)(about)
    }
}

/// The probes of a store, by the names of operations.
#[derive(Debug, Default)]
pub(crate) struct Probes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_operation: HashMap<String, Probe>,
    /// Operations that want a probe and have none, as the log has told.
    missing: BTreeSet<String>,
}

/// How many operations without a probe are told of.
const MOST_MISSING: usize = 256;

impl Probes {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, operation: String, probe: Probe) {
        self.table().by_operation.insert(operation, probe);
    }

    /// These take the place of all that were there.
    #[cfg_attr(
        not(any(feature = "cli", test)),
        expect(dead_code, reason = "only the binary reads its configuration anew")
    )]
    pub(crate) fn replace(&self, with: impl IntoIterator<Item = (String, Probe)>) {
        let mut table = self.table();
        table.by_operation = with.into_iter().collect();
        table.missing.clear();
    }

    /// The probe of an operation whose policy asks for one.
    pub(crate) fn of(&self, operation: &str) -> Option<Probe> {
        let mut table = self.table();
        let found = table.by_operation.get(operation).cloned();
        if found.is_none() && table.missing.len() < MOST_MISSING && table.missing.insert(operation.to_owned()) {
            tracing::warn!(
                event = "probe_missing",
                operation,
                help = "register one by Store::probe, or settle by hand",
                "the operation is to be settled by a probe, and has none: its uncertain outcomes stay as they are"
            );
        }
        found
    }
}
