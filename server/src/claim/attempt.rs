//! A claim that this process won: proving it, ending it, and what is said of how it ended.
//!
//! The layer's runs, [`Claim`](super::Claim) and the handlers' [`Running`](crate::Running) write through here and
//! nowhere else, so that all of them try again for as long as it makes sense and say the same.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use samekey_core::claim::{Event, Fence, Finish, Reason, Record, Say, State};
use samekey_core::problem::Code;
use samekey_core::receipt::Receipt;
use samekey_core::{Actor, Key, Policy, Timestamp};
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use crate::command::Outcome;
use crate::layer::answer;
use crate::observe;
use crate::problem::Problem;
use crate::store::{Applied, Ask, Found, Hold, Note, RecordId, Store, StoreError, StoredResponse, Told};

/// Between two tries to store what must be stored.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// Why an outcome is unknown while an effect is open.
pub(crate) const OPEN: &str = "an effect that it called did not say how it ended";

/// When a claim was asked for, on both clocks: whatever the store says of times began later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    at: Instant,
    monotonic: Duration,
}

impl Asked {
    pub(crate) fn now(store: &Store) -> Self {
        Self { at: Instant::now(), monotonic: store.clock().monotonic() }
    }

    /// How long ago.
    #[cfg(feature = "cli")]
    pub(crate) fn elapsed(self) -> Duration {
        self.at.elapsed()
    }
}

/// A claim and everything its end needs. Whether it is renewed is the business of the [`Hold`] beside it.
pub(crate) struct Attempt {
    pub(crate) store: Store,
    pub(crate) id: RecordId,
    /// The name under which the record was made.
    pub(crate) operation: String,
    /// That name stood in a configuration.
    pub(crate) configured: bool,
    pub(crate) created_at: Timestamp,
    /// Of the delivery that won.
    pub(crate) request_id: Option<Arc<str>>,
    pub(crate) fence: Fence,
    pub(crate) policy: Arc<Policy>,
    pub(crate) actor: Actor,
    pub(crate) key: Key,
    /// No later than the store's.
    pub(crate) deadline: Instant,
}

impl fmt::Debug for Attempt {
    /// Handlers may log what they were given: no key, no actor.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, operation, fence, .. } = self;
        f.debug_struct("Attempt")
            .field("record", &id.0)
            .field("operation", operation)
            .field("attempt", &fence.attempt)
            .finish_non_exhaustive()
    }
}

/// The record ended, or goes on, otherwise than this attempt said.
#[derive(Debug)]
pub(crate) enum Otherwise {
    /// Somebody else ended it: its answer is the only one that was or will be given.
    Replay(Box<Outcome>),
    /// Nobody knows how it ended, or its answer is not at hand.
    Refused(Problem),
    /// The claim is not this attempt's any more. The record as it is, if there still is one.
    Stale(Option<Box<Record>>),
}

impl Attempt {
    /// What a delivery won, if it won, and its heartbeat.
    pub(crate) fn won(store: &Store, ask: &Ask, told: &Told, asked: Asked) -> Option<(Self, Hold)> {
        let (Say::Run(fence), Some(found)) = (told.say, told.found.as_ref()) else { return None };
        let hold = store.hold(found.id, fence, &ask.policy, asked.monotonic);
        let attempt = Self {
            store: store.clone(),
            id: found.id,
            operation: found.operation.clone(),
            configured: found.configured,
            created_at: found.record.created_at,
            request_id: ask.request_id.clone(),
            fence,
            policy: Arc::clone(&ask.policy),
            actor: ask.actor.clone(),
            key: ask.key.clone(),
            deadline: asked.at + ask.policy.timeout,
        };
        Some((attempt, hold))
    }

    /// Before this moment whatever runs under the claim must be gone: from then on the record may be settled from
    /// outside.
    pub(crate) fn drop_at(&self) -> Instant {
        let probe_after = self.policy.probe_after();
        // Nobody calls the claim lapsed before its last proof is a lease old; that moment may have passed already.
        let proved_at = self.store.proved_at(self.id, self.fence);
        let proved_ago = self.store.clock().monotonic().saturating_sub(proved_at);
        let now = Instant::now();
        let lapses = now.checked_sub(proved_ago).unwrap_or(now) + self.policy.lease;
        lapses.min(self.deadline) + probe_after.saturating_sub((probe_after / 10).min(Duration::from_secs(1)))
    }

    /// What the log calls the key.
    pub(crate) fn key_hash(&self) -> String {
        self.store.log_hash("key", self.key.expose())
    }

    /// Until when it is worth while to try to store how something ended.
    pub(crate) fn until(&self) -> Instant {
        if Instant::now() < self.deadline { self.deadline } else { self.drop_at() }
    }

    /// Proves a claim again of which one heard so late that it may have been lost since.
    pub(crate) async fn prove_if_late(&self, asked: Asked) -> Result<(), Problem> {
        if asked.at.elapsed() <= self.policy.lease / 3 {
            return Ok(());
        }
        match self.store.apply(self.id, Arc::clone(&self.policy), Event::Start(self.fence), None).await {
            Ok(Applied { refused: None, .. }) => Ok(()),
            Ok(Applied { record, .. }) => Err(self.lost(record.as_ref())),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes how the attempt ended. What cannot be stored is held and tried until the given moment.
    pub(crate) async fn finish(
        &self,
        finish: Finish,
        response: Option<StoredResponse>,
        note: Note,
        until: Instant,
    ) -> Result<Applied, StoreError> {
        let event = Event::Finish(self.fence, finish);
        loop {
            let policy = Arc::clone(&self.policy);
            match self.store.apply_noted(self.id, policy, event.clone(), response.clone(), note.clone()).await {
                Err(error) if self.tries_again(&error, until) => {
                    tracing::error!(event = "store_error", record = self.id.0, error = %error, "the end of an attempt waits for the store");
                    sleep(RETRY).await;
                }
                result => return result,
            }
        }
    }

    pub(crate) fn tries_again(&self, error: &StoreError, until: Instant) -> bool {
        Instant::now() + RETRY < until && !error.is_closed()
    }

    /// What is to be said once the end is written: what the record says now, never more.
    pub(crate) async fn ended(&self, applied: Result<Applied, StoreError>) -> Result<Record, Otherwise> {
        match applied {
            // Uncertain after all.
            Ok(Applied { record: Some(record), refused: None }) if record.reason == Some(Reason::EarlierAttempt) => {
                let why = if record.effects.open > 0 { OPEN } else { "an earlier attempt may have taken effect" };
                self.tell_uncertain(Reason::EarlierAttempt, why, None);
                Err(Otherwise::Refused(self.uncertain(why).receipt(record.receipt())))
            }
            Ok(Applied { record: Some(record), refused: None }) => Ok(record),
            Ok(Applied { record: None, .. }) => Err(Otherwise::Stale(None)),
            Ok(Applied { record: Some(record), refused: Some(_) }) => {
                observe::stale_finish(&observe::StaleFinish {
                    label: &observe::label(self.configured, &self.policy.operation),
                    operation: &self.operation,
                    record: self.id,
                    attempt: self.fence.attempt,
                    key_hash: &self.key_hash(),
                    state: record.state.as_str(),
                });
                Err(self.settled_otherwise(record).await)
            }
            Err(error) => {
                tracing::error!(event = "store_error", record = self.id.0, error = %error, "the end of an attempt could not be stored");
                Err(Otherwise::Refused(self.uncertain("its answer could not be stored")))
            }
        }
    }

    async fn settled_otherwise(&self, record: Record) -> Otherwise {
        match record.state {
            State::Completed | State::Failed | State::Expired => match self.store.response(self.id).await {
                Ok(Some(stored)) if record.has_response => {
                    Otherwise::Replay(Box::new(Outcome::stored(&record, stored)))
                }
                _ => {
                    let (operation, configured) = (self.operation.clone(), self.configured);
                    let found = Some(Found { id: self.id, operation, configured, record });
                    let told = Told { say: Say::Replay, found, response: None, profile: None, now: self.store.now() };
                    Otherwise::Refused(answer::refusal(Code::ResponseNotStored, &told, &self.key, &self.policy))
                }
            },
            State::InProgress | State::Released | State::Uncertain => Otherwise::Stale(Some(Box::new(record))),
        }
    }

    /// Tells the log that the outcome is unknown, and why.
    pub(crate) fn tell_uncertain(&self, reason: Reason, why: &str, trace_id: Option<&str>) {
        observe::uncertain(&observe::Uncertain {
            operation: &self.operation,
            record: self.id,
            attempt: self.fence.attempt,
            key_hash: Some(&self.key_hash()),
            request_id: self.request_id.as_deref(),
            trace_id,
            reason: reason.as_str(),
            age: self.store.now().since(self.created_at),
            why,
        });
    }

    /// The outcome is unknown, for this reason.
    pub(crate) fn uncertain(&self, why: &str) -> Problem {
        let hint = "It will not run again by itself. Do not send the command with another key before it is settled.";
        Problem::new(Code::OutcomeUncertain, format!("Whether the command took effect is unknown: {why}. {hint}"))
            .about(&self.operation)
    }

    /// The claim went to somebody else, or nobody: what its client hears.
    pub(crate) fn lost(&self, record: Option<&Record>) -> Problem {
        let problem = self.uncertain("the claim was lost while it ran");
        match record {
            Some(record) => problem.receipt(record.receipt()),
            None => problem,
        }
    }

    /// The claim went to somebody else, or nobody: what its holder hears.
    pub(crate) fn stale(&self, record: Option<&Record>) -> Problem {
        stale(record.map(Record::receipt)).about(&self.operation)
    }

    /// Nothing happened: what its client hears where the handler has no answer of its own.
    pub(crate) fn released(&self, receipt: Receipt) -> Problem {
        let why = "Nothing happened in this run. Send the same request with the same key again.";
        Problem::new(Code::OperationReleased, why).retry_after(Duration::from_secs(1)).receipt(receipt)
    }
}

/// Of a claim that is not held any more.
pub(crate) fn stale(receipt: Option<Receipt>) -> Problem {
    let why = "Its lease or its deadline passed, or somebody settled the record. Stop: what this run still does counts no more.";
    let problem = Problem::new(Code::ClaimStale, why);
    match receipt {
        Some(receipt) => problem.receipt(receipt),
        None => problem,
    }
}

/// Drives a write to its end, whatever becomes of whoever waits for it.
pub(crate) async fn to_its_end<T: Send + 'static>(
    write: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    // A task that is gone went with its runtime, and so does the store's caller.
    tokio::spawn(write.in_current_span()).await.unwrap_or(Err(StoreError::Closed))
}
