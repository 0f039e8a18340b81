//! What a handler is told about the claim it runs under, and what it says of its answer.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use samekey_core::answer::said;
use samekey_core::claim::effects::Input;
use samekey_core::{Key, OutcomeClass};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::claim::{Attempt, EffectError, ProviderKey, input_of};
use crate::names;

/// The running claim: an extractor inside [`super::IdempotencyLayer`]. A service behind the proxy gets the same in
/// `Idempotency-Key`, `Samekey-Attempt` and `Samekey-Provider-Key`.
#[derive(Clone, Debug)]
pub struct Running {
    attempt: Arc<Attempt>,
    provider_key: ProviderKey,
}

impl Running {
    pub(crate) fn new(attempt: Arc<Attempt>) -> Self {
        let provider_key = attempt.provider_key("");
        Self { attempt, provider_key }
    }

    /// Tells the handler by extension and by header.
    pub(crate) fn tell(self, parts: &mut Parts) {
        parts.headers.insert(names::ATTEMPT, HeaderValue::from(self.attempt()));
        parts.headers.insert(names::PROVIDER_KEY, names::value(&self.provider_key.as_str()));
        parts.extensions.insert(self);
    }

    /// The key of the command.
    pub fn key(&self) -> &Key {
        &self.attempt.key
    }

    /// The number of this run: greater than 1 after one that was released or whose outcome was declared repeatable.
    pub fn attempt(&self) -> u32 {
        self.attempt.fence.attempt
    }

    /// A key for the external system that the handler calls: derived from scope and key, the same on every attempt. An
    /// effect in the journal has one of its own.
    pub fn provider_key(&self) -> &str {
        self.provider_key.as_str()
    }

    /// Calls an external system once, as [`Claim::effect`](crate::Claim::effect) does.
    ///
    /// While an effect is open the record is neither released nor failed, whatever the handler answers; a success stands.
    /// Two calls at once need two names: of the second under one name nobody knows how the first ends.
    ///
    /// # Errors
    /// See [`EffectError`]. Returned by the handler it ends the attempt as it is: unknown makes the outcome uncertain, not
    /// done releases the key, which says that the handler did nothing else that is not in the journal.
    pub async fn effect<T, F, Fut>(&self, name: &str, call: F) -> Result<T, EffectError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<T, EffectError>>,
    {
        self.call(name, None, call).await
    }

    /// As [`Running::effect`], for one input: another one under the same name is [`EffectError::OtherInput`].
    ///
    /// # Errors
    /// See [`EffectError`].
    pub async fn effect_with<I, T, F, Fut>(&self, name: &str, input: &I, call: F) -> Result<T, EffectError>
    where
        I: Serialize + ?Sized,
        T: Serialize + DeserializeOwned,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<T, EffectError>>,
    {
        let input = input_of(input)?;
        self.call(name, Some(input), call).await
    }

    async fn call<T, F, Fut>(&self, name: &str, input: Option<Input>, call: F) -> Result<T, EffectError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<T, EffectError>>,
    {
        self.attempt.effect(name, input, call).await
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

/// Part of a handler's answer: the id of what it made, which is remembered longer than the answer is.
///
/// ```
/// # use http::StatusCode;
/// use samekey::ResultId;
///
/// async fn create() -> (StatusCode, ResultId, &'static str) {
///     (StatusCode::CREATED, ResultId::new("o1"), "{}")
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultId(String);

impl ResultId {
    /// This id.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }
}

impl IntoResponseParts for ResultId {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

/// Part of a handler's answer: what it means for the record, over what its status would. A service behind the proxy says
/// it by the header `Samekey-Outcome: terminal | released | uncertain`.
///
/// Whoever releases says that nothing happened. On a success, or while an effect is open, that makes the outcome
/// uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means(pub OutcomeClass);

impl IntoResponseParts for Means {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

/// What the handler said of its own answer.
pub(super) fn outcome_of(parts: &http::response::Parts) -> Option<OutcomeClass> {
    if let Some(Means(class)) = parts.extensions.get() {
        return Some(*class);
    }
    let value = parts.headers.get(names::OUTCOME)?;
    let said = said(value.as_bytes());
    if said.is_none() {
        tracing::warn!(event = "outcome_unknown", value = ?value, "Samekey-Outcome is none of terminal, released, uncertain");
    }
    said
}

/// The id that the handler named.
pub(super) fn result_id_of(parts: &http::response::Parts) -> Option<String> {
    parts.extensions.get::<ResultId>().map(|ResultId(id)| id.clone())
}
