//! Events of the log. Never a key, a payload or a credential: keyed hashes stand for key and actor.

use std::time::Duration;

use metrics::counter;
use samekey_core::problem::Code;

use super::span::request_ended;
use super::{Label, table as name};
use crate::store::{By, RecordId};

/// Milliseconds with three decimals: replays take less than one.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// A covered request, as the log tells it.
pub(crate) struct Request<'a> {
    pub(crate) request_id: &'a str,
    pub(crate) trace_id: Option<&'a str>,
    /// In full: in a log, paths do no harm.
    pub(crate) operation: &'a str,
    pub(crate) decision: &'a str,
    pub(crate) state: &'a str,
    pub(crate) attempt: Option<u32>,
    pub(crate) code: Option<Code>,
    pub(crate) record: Option<RecordId>,
    pub(crate) key_hash: Option<&'a str>,
    pub(crate) actor_hash: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) route: Option<&'a str>,
    pub(crate) status: Option<u16>,
    pub(crate) duration: Duration,
    pub(crate) wait: Duration,
    pub(crate) store: Duration,
}

/// Whether anybody listens, before hashes are made.
pub(crate) fn tells_of_requests() -> bool {
    tracing::enabled!(tracing::Level::INFO)
}

/// One line for every covered request, and the end of its span.
pub(crate) fn request(span: &tracing::Span, request: &Request<'_>) {
    request_ended(span, request.decision, request.state, request.attempt, request.key_hash);
    tracing::info!(
        event = "request",
        request_id = request.request_id,
        trace_id = request.trace_id,
        operation = request.operation,
        decision = request.decision,
        state = request.state,
        attempt = request.attempt,
        code = request.code.map(Code::as_str),
        record = request.record.map(|id| id.0),
        key_hash = request.key_hash,
        actor_hash = request.actor_hash,
        http.request.method = request.method,
        http.route = request.route,
        http.response.status_code = request.status,
        duration_ms = millis(request.duration),
        wait_ms = millis(request.wait),
        store_ms = millis(request.store),
    );
}

/// A question about a key, or a key that was closed.
pub(crate) struct Asked<'a> {
    pub(crate) event: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) state: Option<&'a str>,
    pub(crate) key_hash: &'a str,
    pub(crate) actor_hash: &'a str,
    pub(crate) status: u16,
}

/// One line for every request to the routes about keys.
pub(crate) fn asked(asked: &Asked<'_>) {
    tracing::info!(
        event = asked.event,
        request_id = asked.request_id,
        operation = asked.operation,
        state = asked.state,
        key_hash = asked.key_hash,
        actor_hash = asked.actor_hash,
        http.response.status_code = asked.status,
    );
}

/// A claim that a program asked for.
#[cfg(feature = "cli")]
pub(crate) struct Claim<'a> {
    pub(crate) label: &'a Label,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) operation: &'a str,
    pub(crate) decision: super::Decision,
    pub(crate) code: Option<Code>,
    pub(crate) key_hash: &'a str,
    pub(crate) actor_hash: &'a str,
    /// The name of its token.
    pub(crate) who: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) duration: Duration,
}

/// A program asked for a claim.
#[cfg(feature = "cli")]
pub(crate) fn claim(claim: &Claim<'_>) {
    super::answered(claim.label, claim.decision, Some(claim.code), claim.duration);
    tracing::info!(
        event = "claim",
        request_id = claim.request_id,
        operation = claim.operation,
        decision = claim.decision.as_str(),
        code = claim.code.map(Code::as_str),
        key_hash = claim.key_hash,
        actor_hash = claim.actor_hash,
        who = claim.who,
        http.response.status_code = claim.status,
        duration_ms = millis(claim.duration),
    );
}

/// An outcome that nobody knows.
pub(crate) struct Uncertain<'a> {
    pub(crate) operation: &'a str,
    pub(crate) record: RecordId,
    pub(crate) attempt: u32,
    pub(crate) key_hash: Option<&'a str>,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) trace_id: Option<&'a str>,
    pub(crate) reason: &'a str,
    /// Of the record.
    pub(crate) age: Duration,
    pub(crate) why: &'a str,
}

/// An outcome became uncertain.
pub(crate) fn uncertain(uncertain: &Uncertain<'_>) {
    let record = uncertain.record.0;
    tracing::warn!(
        event = "uncertain",
        request_id = uncertain.request_id,
        trace_id = uncertain.trace_id,
        operation = uncertain.operation,
        record,
        attempt = uncertain.attempt,
        key_hash = uncertain.key_hash,
        reason = uncertain.reason,
        age_s = uncertain.age.as_secs(),
        help = %format_args!("samekey records show {record}"),
        "outcome unknown: {}",
        uncertain.why
    );
}

/// A holder fell silent.
pub(crate) fn lease_lapsed(operation: &str, record: RecordId, attempt: u32, key_hash: Option<&str>, state: &str) {
    tracing::warn!(
        event = "lease_lapsed",
        operation,
        record = record.0,
        attempt,
        key_hash,
        state,
        "the holder of a claim fell silent"
    );
}

/// An attempt that ended too late.
pub(crate) struct StaleFinish<'a> {
    pub(crate) label: &'a Label,
    pub(crate) operation: &'a str,
    pub(crate) record: RecordId,
    pub(crate) attempt: u32,
    pub(crate) key_hash: &'a str,
    /// What the record says instead.
    pub(crate) state: &'a str,
}

/// An attempt ended after its record was settled otherwise: two outcomes contradict each other.
pub(crate) fn stale_finish(finish: &StaleFinish<'_>) {
    counter!(name::STALE_FINISHES, "operation" => finish.label.clone()).increment(1);
    tracing::error!(
        event = "stale_finish",
        operation = finish.operation,
        record = finish.record.0,
        attempt = finish.attempt,
        key_hash = finish.key_hash,
        state = finish.state,
        "an attempt ended after its record was settled otherwise"
    );
}

/// An uncertain outcome that came to its end.
pub(crate) struct Settled<'a> {
    pub(crate) operation: &'a str,
    pub(crate) record: RecordId,
    pub(crate) attempt: u32,
    pub(crate) key_hash: Option<&'a str>,
    pub(crate) state: &'a str,
    pub(crate) by: By,
    pub(crate) who: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
    /// Of the record.
    pub(crate) age: Duration,
}

/// An uncertain outcome came to its end.
pub(crate) fn settled(settled: &Settled<'_>) {
    tracing::info!(
        event = "settled",
        operation = settled.operation,
        record = settled.record.0,
        attempt = settled.attempt,
        key_hash = settled.key_hash,
        state = settled.state,
        by = settled.by.as_str(),
        who = settled.who,
        reason = settled.reason,
        age_s = settled.age.as_secs(),
    );
}

/// What an external system said of an uncertain outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    Happened,
    Never,
    Unclear,
    /// It could not be asked, or did not answer.
    Error,
}

/// A question to an external system.
pub(crate) struct Probe<'a> {
    pub(crate) label: &'a Label,
    pub(crate) operation: &'a str,
    pub(crate) record: RecordId,
    pub(crate) attempt: u32,
    pub(crate) key_hash: &'a str,
    pub(crate) result: Probed,
    /// Of the record.
    pub(crate) age: Duration,
    pub(crate) took: Duration,
    /// When it is asked again.
    pub(crate) again: Option<Duration>,
    pub(crate) why: &'a str,
}

/// An external system was asked about an uncertain outcome.
pub(crate) fn probed(probe: &Probe<'_>) {
    let (result, sure) = match probe.result {
        Probed::Happened => ("happened", true),
        Probed::Never => ("never", true),
        Probed::Unclear => ("unclear", false),
        Probed::Error => ("error", false),
    };
    counter!(name::PROBES, "operation" => probe.label.clone(), "result" => result).increment(1);
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                event = "probe",
                operation = probe.operation,
                record = probe.record.0,
                attempt = probe.attempt,
                key_hash = probe.key_hash,
                result,
                age_s = probe.age.as_secs(),
                duration_ms = millis(probe.took),
                again_s = probe.again.map(|again| again.as_secs()),
                "{}",
                probe.why
            )
        };
    }
    if sure { tell!(info) } else { tell!(warn) }
}

/// A turn of the sweeper; the counters are moved by what it wrote.
pub(crate) fn swept(tombstones: usize, gone: usize) {
    tracing::info!(event = "swept", tombstones, gone, "answers were forgotten, and records themselves");
}

/// What was found out came too late for a record.
pub(crate) fn not_settled(operation: &str, record: RecordId, key_hash: &str, state: &str, by: By) {
    tracing::info!(
        event = "not_settled",
        operation,
        record = record.0,
        key_hash,
        state,
        by = by.as_str(),
        "the record changed meanwhile, or an external call of it is still open"
    );
}

/// The same actor sent the same payload under two keys within a short time.
pub(crate) fn suspected_duplicate(
    label: &Label,
    operation: &str,
    record: RecordId,
    key_hash: &str,
    actor_hash: &str,
    ago: Duration,
) {
    counter!(name::SUSPECTED_DUPLICATES, "operation" => label.clone()).increment(1);
    tracing::warn!(
        event = "suspected_duplicate",
        operation,
        record = record.0,
        key_hash,
        actor_hash,
        ago_s = ago.as_secs(),
        "the same actor sent the same payload under another key: a client that makes a new key for each retry is not protected"
    );
}
