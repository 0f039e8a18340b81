//! All metrics: name, kind, labels, and what each one counts.

use metrics::Unit;

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Values by size.
    Histogram {
        /// The upper bounds that Prometheus counts by.
        buckets: &'static [f64],
    },
}

/// A metric.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// As Prometheus and its queries spell it.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
    unit: Option<Unit>,
}

/// From a replay out of memory to the longest wait.
const REQUEST_SECONDS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// From a quick write to twice the usual timeout.
const HANDLER_SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
/// From an fsync of a good disk to a client's patience.
const COMMIT_SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Up to the largest batch.
const BATCH_RECORDS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

macro_rules! table {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $kind:expr, [$($label:literal),*], $unit:expr, $help:literal;)+) => {
        $($(#[$doc])* #[cfg_attr(not(feature = "cli"), allow(dead_code))] pub(super) const $id: &str = $name;)+

        /// Every metric.
        pub const METRICS: &[Metric] =
            &[$(Metric { name: $name, kind: $kind, labels: &[$($label),*], help: $help, unit: $unit },)+];
    };
}

use Kind::{Counter, Gauge};
const fn by(buckets: &'static [f64]) -> Kind {
    Kind::Histogram { buckets }
}

table! {
    REQUESTS = "samekey_requests_total", Counter, ["operation", "decision", "code"], None,
        "Requests, by what was decided: claimed, replayed, waited, refused, passed; and the code of a refusal.";
    REQUEST_DURATION = "samekey_request_duration_seconds", by(REQUEST_SECONDS), ["operation", "decision"],
        Some(Unit::Seconds), "From a request's head to the head of its answer.";
    HANDLER_DURATION = "samekey_handler_duration_seconds", by(HANDLER_SECONDS),
        ["operation", "http_response_status_class"], Some(Unit::Seconds),
        "How long the service took under a claim, until its answer was complete; none: it gave no answer.";
    UNPROTECTED = "samekey_unprotected_requests_total", Counter, ["operation", "reason"], None,
        "Commands without protection: no_key, no_actor (refused), ignored (a key that does not count).";
    IN_FLIGHT = "samekey_in_flight", Gauge, ["operation"], None, "Commands that run in this process.";
    WAITERS = "samekey_waiters", Gauge, ["operation"], None, "Requests that wait for another delivery of their key.";
    RECORDS = "samekey_records", Gauge, ["operation", "state"], None,
        "Records in the store, counted by every write and looked at every 15 s.";
    UNCERTAIN_OLDEST = "samekey_uncertain_oldest_timestamp_seconds", Gauge, ["operation"], Some(Unit::Seconds),
        "Since when, in Unix time, the oldest uncertain outcome is uncertain; 0: there is none.";
    TRANSITIONS = "samekey_transitions_total", Counter, ["operation", "from", "to", "by"], None,
        "Changes of a record's state, and by whom: delivery, handler, client, lease, probe, operator, sweeper, restore.";
    STALE_FINISHES = "samekey_stale_finishes_total", Counter, ["operation"], None,
        "Attempts that ended after their record was settled otherwise.";
    LEASES_LAPSED = "samekey_leases_lapsed_total", Counter, ["operation"], None,
        "Claims whose holder fell silent.";
    PROBES = "samekey_probes_total", Counter, ["operation", "result"], None,
        "Questions to external systems: happened, never, unclear, error.";
    SUSPECTED_DUPLICATES = "samekey_suspected_duplicates_total", Counter, ["operation"], None,
        "Commands that ran although the same actor had just sent the same payload under another key.";
    COMMIT_DURATION = "samekey_store_commit_duration_seconds", by(COMMIT_SECONDS), [], Some(Unit::Seconds),
        "How long a transaction of the store took, with its fsync.";
    BATCH = "samekey_store_batch_records", by(BATCH_RECORDS), [], None,
        "How many writes shared a transaction.";
    QUEUE_LENGTH = "samekey_store_queue_length", Gauge, [], None, "Writes that wait for the disk.";
    QUEUE_CAPACITY = "samekey_store_queue_capacity", Gauge, [], None,
        "The most writes that may wait; from half of it on no new command starts.";
    STORE_SIZE = "samekey_store_size_bytes", Gauge, [], Some(Unit::Bytes), "The store's files, its WAL among them.";
    STORE_ERRORS = "samekey_store_errors_total", Counter, ["kind"], None,
        "What the store could not do: busy, full, io, corrupt.";
    SWEPT = "samekey_swept_records_total", Counter, ["to"], None,
        "Records whose answer was forgotten (tombstone), and that were forgotten themselves (gone).";
    BUILD_INFO = "samekey_build_info", Gauge, ["version", "fingerprint"], None,
        "Always 1: the version of the program and of its fingerprints.";
    RELOAD_SUCCESS = "samekey_config_last_reload_success", Gauge, [], None,
        "1 if the last reading of the configuration succeeded, 0 if the operations stayed as they were.";
}

/// Tells the installed recorder what each metric means. The binary does it by itself.
pub fn describe() {
    for Metric { name, kind, help, unit, .. } in METRICS {
        match (kind, unit) {
            (Counter, None) => metrics::describe_counter!(*name, *help),
            (Counter, Some(unit)) => metrics::describe_counter!(*name, *unit, *help),
            (Gauge, None) => metrics::describe_gauge!(*name, *help),
            (Gauge, Some(unit)) => metrics::describe_gauge!(*name, *unit, *help),
            (Kind::Histogram { .. }, None) => metrics::describe_histogram!(*name, *help),
            (Kind::Histogram { .. }, Some(unit)) => metrics::describe_histogram!(*name, *unit, *help),
        }
    }
}
