//! Spans, at the level `debug`. Their attributes have the same meaning as in the log.

use samekey_core::claim::Fence;
use tracing::{Span, debug_span, field};

use crate::store::RecordId;

/// All of a covered request; what is known later is recorded by [`request_ended`].
pub(crate) fn request_span(operation: &str) -> Span {
    debug_span!(
        "samekey.request",
        samekey.operation = operation,
        samekey.decision = field::Empty,
        samekey.state = field::Empty,
        samekey.attempt = field::Empty,
        samekey.key_hash = field::Empty,
    )
}

/// What the request came to.
pub(super) fn request_ended(span: &Span, decision: &str, state: &str, attempt: Option<u32>, key_hash: Option<&str>) {
    span.record("samekey.decision", decision);
    span.record("samekey.state", state);
    span.record("samekey.attempt", attempt);
    span.record("samekey.key_hash", key_hash);
}

/// The store decides who runs.
pub(crate) fn claim_span(operation: &str) -> Span {
    debug_span!("samekey.claim", samekey.operation = operation)
}

/// The handler, or the service behind the proxy, works under a claim.
pub(crate) fn upstream_span(operation: &str, fence: Fence) -> Span {
    debug_span!("samekey.upstream", samekey.operation = operation, samekey.attempt = fence.attempt)
}

/// How the attempt ended is written.
pub(crate) fn finish_span(operation: &str, fence: Fence, record: RecordId) -> Span {
    debug_span!(
        "samekey.finish",
        samekey.operation = operation,
        samekey.attempt = fence.attempt,
        samekey.record = record.0
    )
}
