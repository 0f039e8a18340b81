//! What a handler is told about the claim it runs under.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use samekey_core::Key;
use samekey_core::claim::Fence;

use crate::names;
use crate::store::{Ask, Found, Store};

/// The running claim: an extractor inside [`super::IdempotencyLayer`]. A service behind the proxy gets the same in
/// `Idempotency-Key`, `Samekey-Attempt` and `Samekey-Provider-Key`.
#[derive(Clone, Debug)]
pub struct Running {
    key: Key,
    attempt: u32,
    provider_key: String,
}

impl Running {
    pub(crate) fn new(ask: &Ask, found: &Found, fence: Fence, store: &Store) -> Self {
        let provider_key = store.provider_key(&ask.actor, &found.operation, &ask.key, "");
        Self { key: ask.key.clone(), attempt: fence.attempt, provider_key }
    }

    /// Tells the handler by extension and by header.
    pub(crate) fn tell(self, parts: &mut Parts) {
        parts.headers.insert(names::ATTEMPT, HeaderValue::from(self.attempt));
        parts.headers.insert(names::PROVIDER_KEY, names::value(&self.provider_key));
        parts.extensions.insert(self);
    }

    /// The key of the command.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The number of this run: greater than 1 after one that was released or whose outcome was declared repeatable.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A key for the external system that the handler calls: derived from scope and key, the same on every attempt.
    pub fn provider_key(&self) -> &str {
        &self.provider_key
    }
}

/// The handler is not inside the layer, or the request is not covered.
#[derive(Debug)]
pub struct NotCovered;

impl IntoResponse for NotCovered {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, "this handler needs a request that the idempotency layer covers")
            .into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Running {
    type Rejection = NotCovered;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotCovered> {
        parts.extensions.get::<Self>().cloned().ok_or(NotCovered)
    }
}
