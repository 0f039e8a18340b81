//! Every header name that is ours to read or to write.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

/// `Idempotency-Key`.
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// `Idempotent-Replayed: true`, as Stripe spells it.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The receipt.
pub const STATE: HeaderName = HeaderName::from_static("samekey-state");
/// The opaque tag of the actor.
pub const ACTOR: HeaderName = HeaderName::from_static("samekey-actor");
/// The number of the claim, for the handler.
pub const ATTEMPT: HeaderName = HeaderName::from_static("samekey-attempt");
/// A key for the external system that the handler calls, the same on every attempt.
pub const PROVIDER_KEY: HeaderName = HeaderName::from_static("samekey-provider-key");
/// What the handler says of its own answer.
pub const OUTCOME: HeaderName = HeaderName::from_static("samekey-outcome");
/// One per delivery.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What Stripe's SDKs obey.
pub const STRIPE_SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
/// RFC 7240.
pub const PREFER: HeaderName = HeaderName::from_static("prefer");

/// A value that is ASCII by construction.
pub(crate) fn value(text: &impl fmt::Display) -> HeaderValue {
    HeaderValue::from_str(&text.to_string()).unwrap_or(HeaderValue::from_static("invalid"))
}

pub(crate) fn flag(yes: bool) -> HeaderValue {
    HeaderValue::from_static(if yes { "true" } else { "false" })
}

/// Takes all `Samekey-*` fields off a message: from clients and handlers they mean nothing, or they would be
/// believed as ours.
pub(crate) fn strip_ours(headers: &mut HeaderMap) {
    let ours: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with("samekey-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}
