//! What is counted, and when.

use std::time::Duration;

use http::StatusCode;
use metrics::{Gauge, SharedString, counter, gauge, histogram};
use samekey_core::claim::State;
use samekey_core::problem::Code;

use super::{OTHER, table as name};
use crate::store::{By, Queue, StoreError};

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It ran.
    Claimed,
    /// It got the stored answer.
    Replayed,
    /// It got it after it had waited for another delivery.
    Waited,
    /// It got a code.
    Refused,
    /// It was none of ours.
    Passed,
}

impl Decision {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Replayed => "replayed",
            Self::Waited => "waited",
            Self::Refused => "refused",
            Self::Passed => "passed",
        }
    }
}

/// Why a command is not protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unprotected {
    /// It carries no key, and needs none.
    NoKey,
    /// Nobody is signed in; it was refused.
    NoActor,
    /// Its key does not count.
    Ignored,
}

impl Unprotected {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::NoActor => "no_actor",
            Self::Ignored => "ignored",
        }
    }
}

/// As metrics call an operation. Cheap to clone.
pub(crate) type Label = SharedString;

/// Paths must not become labels.
pub(crate) fn label(configured: bool, operation: &str) -> Label {
    if configured { SharedString::from_shared(operation.into()) } else { SharedString::const_str(OTHER) }
}

/// No code: an empty label is none to Prometheus.
const NO_CODE: &str = "";
/// A client that hung up hears no code.
const HUNG_UP: &str = "hung_up";

/// A covered request has its answer; `None`: its client hung up.
pub(crate) fn answered(label: &Label, decision: Decision, answer: Option<Option<Code>>, took: Duration) {
    let code = answer.map_or(HUNG_UP, |code| code.map_or(NO_CODE, Code::as_str));
    counter!(name::REQUESTS, "operation" => label.clone(), "decision" => decision.as_str(), "code" => code)
        .increment(1);
    took_by(label, decision, took);
}

/// A request that is none of ours has its answer.
pub(crate) fn passed(label: &Label, took: Duration) {
    answered(label, Decision::Passed, Some(None), took);
}

fn took_by(label: &Label, decision: Decision, took: Duration) {
    histogram!(name::REQUEST_DURATION, "operation" => label.clone(), "decision" => decision.as_str()).record(took);
}

/// A command goes without protection.
pub(crate) fn unprotected(label: &Label, reason: Unprotected) {
    counter!(name::UNPROTECTED, "operation" => label.clone(), "reason" => reason.as_str()).increment(1);
}

/// The handler of a claim has ended; without an answer there is no status.
pub(crate) fn handled(label: &Label, status: Option<StatusCode>, took: Duration) {
    let class = match status.map(|status| status.as_u16()) {
        Some(100..=199) => "1xx",
        Some(200..=299) => "2xx",
        Some(300..=399) => "3xx",
        Some(400..=499) => "4xx",
        Some(_) => "5xx",
        None => "none",
    };
    histogram!(name::HANDLER_DURATION, "operation" => label.clone(), "http_response_status_class" => class)
        .record(took);
}

/// Counts as one while it lives.
pub(crate) struct Guard(Gauge);

impl Guard {
    fn of(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A command runs while the guard lives.
pub(crate) fn in_flight(label: &Label) -> Guard {
    Guard::of(gauge!(name::IN_FLIGHT, "operation" => label.clone()))
}

/// A request waits for another delivery while the guard lives.
pub(crate) fn waiting(label: &Label) -> Guard {
    Guard::of(gauge!(name::WAITERS, "operation" => label.clone()))
}

/// Records changed their state, and that is committed.
pub(crate) fn transition(label: &Label, from: Option<State>, to: Option<State>, by: By, times: u64) {
    let word = |state: Option<State>| state.map_or("none", State::as_str);
    counter!(
        name::TRANSITIONS,
        "operation" => label.clone(), "from" => word(from), "to" => word(to), "by" => by.as_str()
    )
    .increment(times);
    match (by, from, to) {
        (By::Lease, ..) => counter!(name::LEASES_LAPSED, "operation" => label.clone()).increment(times),
        (By::Sweeper, _, Some(State::Expired)) => counter!(name::SWEPT, "to" => "tombstone").increment(times),
        (By::Sweeper, _, None) => counter!(name::SWEPT, "to" => "gone").increment(times),
        _ => {}
    }
}

/// A transaction of the store is committed.
pub(crate) fn committed(took: Duration, writes: usize) {
    histogram!(name::COMMIT_DURATION).record(took);
    histogram!(name::BATCH).record(writes as f64);
}

/// The store could not do what it was asked.
pub(crate) fn store_failed(error: &StoreError) {
    if let Some(kind) = error.kind() {
        counter!(name::STORE_ERRORS, "kind" => kind).increment(1);
    }
}

/// What may be counted under an operation one day begins at nought, so that the first time is seen as a change.
pub(super) fn begin(label: &Label) {
    counter!(name::STALE_FINISHES, "operation" => label.clone()).increment(0);
    counter!(name::LEASES_LAPSED, "operation" => label.clone()).increment(0);
    counter!(name::SUSPECTED_DUPLICATES, "operation" => label.clone()).increment(0);
    gauge!(name::IN_FLIGHT, "operation" => label.clone()).increment(0.0);
    gauge!(name::WAITERS, "operation" => label.clone()).increment(0.0);
}

/// The same for what has no operation.
#[cfg(feature = "cli")]
pub(crate) fn nothing_yet() {
    for kind in StoreError::KINDS {
        counter!(name::STORE_ERRORS, "kind" => *kind).increment(0);
    }
    for to in ["tombstone", "gone"] {
        counter!(name::SWEPT, "to" => to).increment(0);
    }
    reloaded(true);
}

/// How the store's queue stands.
pub(crate) fn queued(Queue { length, capacity }: Queue) {
    gauge!(name::QUEUE_LENGTH).set(length as f64);
    gauge!(name::QUEUE_CAPACITY).set(capacity as f64);
}

/// The configuration was read anew, or could not be.
#[cfg(feature = "cli")]
pub(crate) fn reloaded(success: bool) {
    gauge!(name::RELOAD_SUCCESS).set(if success { 1.0 } else { 0.0 });
}
