//! External calls under a claim, through the journal: called once, or nobody knows.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use samekey_core::claim::State;
use samekey_core::claim::effects::{Call, CallEnd, Input};
use samekey_core::problem::Code;
use samekey_core::receipt::{Receipt, Word};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, sleep_until};

use super::attempt::{Attempt, OPEN, RETRY, stale, to_its_end};
use crate::BoxError;
use crate::problem::Problem;
use crate::store::{EffectEnd, EffectNoted, EffectStart, EffectTold, StoreError};

/// The largest result that the journal keeps, in bytes of JSON. An id, a receipt, a small document; whatever is
/// larger belongs into the application's own database.
pub const MAX_RESULT_BYTES: usize = 64 << 10;

/// The longest name of an effect, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 64;

/// What an external system gets as its own idempotency key: derived from scope, key and the effect's name, the same
/// on every attempt, and no hint at the key itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProviderKey(String);

impl ProviderKey {
    /// 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProviderKey({})", self.0)
    }
}

/// Why an effect has no result. The closure of `effect` says [`EffectError::not_done`] or [`EffectError::unknown`];
/// whatever else it returns means unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EffectError {
    /// The external system did nothing and will not: it may be called again.
    #[error("the effect was not applied: {0}")]
    NotDone(#[source] BoxError),
    /// It may or may not have been applied, in this attempt or an earlier one. It stays open: the record is neither
    /// released nor failed until somebody finds out.
    #[error("whether the effect was applied is unknown: {0}")]
    Unknown(#[source] BoxError),
    /// It was applied, and is not called again; but its result was too large to be kept, or is not what was asked for.
    #[error("the effect was applied, and its result is not at hand: {0}")]
    NoResult(#[source] BoxError),
    /// The name stands for a call with another input. Nothing was called.
    #[error("the effect {name:?} of this command was called with another input before; one name stands for one input")]
    OtherInput {
        /// The name.
        name: String,
    },
    /// The claim is not held any more. Nothing was called.
    #[error("the claim is not held any more ({})", .state.map_or("its record is forgotten", State::as_str))]
    Stale {
        /// The state of the record.
        state: Option<State>,
    },
    /// The call could not be noted in the journal, so nothing was called.
    #[error("the effect could not be noted, and was not called: {0}")]
    Store(#[source] StoreError),
}

impl EffectError {
    /// The external system did nothing and will not: the connection was refused, or it said so.
    pub fn not_done(why: impl Into<BoxError>) -> Self {
        Self::NotDone(why.into())
    }

    /// Nobody knows: a timeout, a broken connection, an answer that says nothing.
    pub fn unknown(why: impl Into<BoxError>) -> Self {
        Self::Unknown(why.into())
    }

    /// Whether an effect was left open.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// As the end of a call: whatever is not known to have done nothing is not known.
    fn of_a_call(self) -> Self {
        match self {
            said @ (Self::NotDone(_) | Self::Unknown(_)) => said,
            other => Self::Unknown(Box::new(other)),
        }
    }
}

/// What a start comes to.
pub(crate) enum Started {
    /// Make the call, with this key.
    Call(ProviderKey),
    /// It was made; this was its result. Empty where it was not kept.
    Done(Bytes),
}

/// A new call.
pub(crate) fn new_call() -> Call {
    let mut bytes = [0; 16];
    crate::random(&mut bytes);
    Call(bytes)
}

/// What a call is made with: the canonical form counts, so neither member order nor white space does.
pub(crate) fn input_of(value: &(impl Serialize + ?Sized)) -> Result<Input, EffectError> {
    let json = serde_json::to_vec(value).map_err(|error| {
        EffectError::Store(StoreError::misuse(format!("the input of an effect has no JSON form: {error}")))
    })?;
    // What is nested too deeply counts as it is written.
    let canonical = samekey_core::json::canonical(&json).unwrap_or(json);
    Ok(Input(Sha256::digest(&canonical).into()))
}

impl Attempt {
    pub(crate) fn provider_key(&self, effect: &str) -> ProviderKey {
        ProviderKey(self.store.provider_key(&self.actor, &self.operation, &self.key, effect))
    }

    /// Proves the claim and opens the entry, before anything is called. Tried until the deadline while the store fails,
    /// as the same call.
    pub(crate) async fn start_effect(
        &self,
        name: &str,
        call: Call,
        input: Option<Input>,
    ) -> Result<Started, EffectError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let why = format!("the name of an effect has 1 to {MAX_NAME_BYTES} bytes, {name:?} has {}", name.len());
            return Err(EffectError::Store(StoreError::misuse(why)));
        }
        let provider_key = self.provider_key(name);
        let start = EffectStart {
            id: self.id,
            fence: self.fence,
            name: name.to_owned(),
            call,
            input,
            provider_key: provider_key.0.clone(),
        };
        loop {
            let asked = Instant::now();
            match self.store.start_effect(start.clone(), Arc::clone(&self.policy)).await {
                Ok(EffectTold::Go) if asked.elapsed() <= self.policy.lease / 3 => {
                    return Ok(Started::Call(provider_key));
                }
                // Heard so late that the claim may have been lost since: proved again, as the same call.
                Ok(EffectTold::Go) => {}
                Ok(EffectTold::Done(result)) => return Ok(Started::Done(result)),
                Ok(EffectTold::Unknown) => {
                    return Err(EffectError::unknown(format!("an earlier call of {name:?} did not say how it ended")));
                }
                Ok(EffectTold::OtherInput) => return Err(EffectError::OtherInput { name: start.name }),
                Ok(EffectTold::Stale(state)) => return Err(EffectError::Stale { state }),
                Err(error) if self.tries_again(&error, self.deadline) => {
                    tracing::error!(event = "store_error", record = self.id.0, error = %error, "an effect waits for the store");
                    sleep(RETRY).await;
                }
                Err(error) => return Err(EffectError::Store(error)),
            }
        }
    }

    /// Writes how a call ended. What cannot be stored is held and tried until the deadline.
    pub(crate) async fn end_effect(
        &self,
        name: String,
        end: CallEnd,
        result: Bytes,
    ) -> Result<EffectNoted, StoreError> {
        let until = self.until();
        let end = EffectEnd { id: self.id, fence: self.fence, name, end, result };
        loop {
            match self.store.end_effect(end.clone()).await {
                Err(error) if self.tries_again(&error, until) => {
                    tracing::error!(event = "store_error", record = self.id.0, error = %error, "the end of an effect waits for the store");
                    sleep(RETRY).await;
                }
                Ok(EffectNoted::Stale(state)) => {
                    tracing::error!(
                        event = "stale_finish",
                        operation = self.operation,
                        record = self.id.0,
                        attempt = self.fence.attempt,
                        effect = end.name,
                        end = end.end.as_str(),
                        state = state.map(State::as_str),
                        "an effect ended after its record was settled otherwise"
                    );
                    return Ok(EffectNoted::Stale(state));
                }
                said => return said,
            }
        }
    }

    /// Calls an external system, unless it was called: then its result is given again.
    pub(crate) async fn effect<T, F, Fut>(
        self: &Arc<Self>,
        name: &str,
        input: Option<Input>,
        call: F,
    ) -> Result<T, EffectError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<T, EffectError>>,
    {
        let key = match self.start_effect(name, new_call(), input).await? {
            Started::Done(result) => return read(name, &result),
            Started::Call(key) => key,
        };
        let Some(told) = self.before_it_must_be_gone(call(key)).await else {
            let why = "it was dropped: the record may be settled from outside from now on";
            return Err(EffectError::unknown(why));
        };
        let (end, result) = match &told {
            Ok(value) => (CallEnd::Done, written(name, value)),
            Err(EffectError::NotDone(_)) => (CallEnd::NotApplied, Bytes::new()),
            Err(_) => (CallEnd::Unknown, Bytes::new()),
        };
        let (attempt, name) = (Arc::clone(self), name.to_owned());
        let noted = to_its_end(async move { attempt.end_effect(name, end, result).await }).await;
        match (noted, told) {
            (Ok(EffectNoted::Kept), told) => told.map_err(EffectError::of_a_call),
            // It is open in the journal, or will be wherever the journal says nothing of it.
            (_, Err(error @ EffectError::Unknown(_))) => Err(error),
            (Ok(EffectNoted::NotStarted), _) => Err(EffectError::unknown("the journal lost its beginning")),
            (Ok(EffectNoted::Stale(state)), _) => Err(EffectError::Unknown(Box::new(EffectError::Stale { state }))),
            (Err(error), _) => Err(EffectError::unknown(format!("its end could not be stored: {error}"))),
        }
    }

    /// The call's result; nothing if it went on until the record may be settled from outside, and was dropped.
    async fn before_it_must_be_gone<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        loop {
            // A renewal moves it on.
            let drop_at = self.drop_at();
            tokio::select! {
                told = &mut call => return Some(told),
                () = sleep_until(drop_at) => if self.drop_at() <= Instant::now() { return None },
            }
        }
    }
}

/// What the journal keeps of a result. That the call is done counts for more: where the result cannot be kept, an
/// empty one says that it was.
fn written<T: Serialize>(name: &str, value: &T) -> Bytes {
    let why = match serde_json::to_vec(value) {
        Ok(json) if json.len() <= MAX_RESULT_BYTES => return json.into(),
        Ok(json) => format!("it has {} bytes, the journal keeps {MAX_RESULT_BYTES}", json.len()),
        Err(error) => format!("it has no JSON form: {error}"),
    };
    tracing::error!(
        event = "result_not_kept",
        effect = name,
        why,
        "an effect is done, a later attempt will not get its result"
    );
    Bytes::new()
}

fn read<T: DeserializeOwned>(name: &str, result: &Bytes) -> Result<T, EffectError> {
    if result.is_empty() {
        return Err(EffectError::NoResult(format!("the result of {name:?} was not kept").into()));
    }
    serde_json::from_slice(result).map_err(|error| EffectError::NoResult(Box::new(error)))
}

/// Goes with the answer that is made of an error, so that the layer knows what it says of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutShort {
    /// Nobody knows how an effect ended, or what it came to.
    Unknown,
    /// The effect was not applied, and the handler has nothing to add.
    NotDone,
    /// The journal could not be written, so the effect was not called.
    NotCalled,
}

impl From<&EffectError> for CutShort {
    fn from(error: &EffectError) -> Self {
        match error {
            EffectError::NotDone(_) => Self::NotDone,
            EffectError::Store(_) => Self::NotCalled,
            EffectError::Unknown(_)
            | EffectError::NoResult(_)
            | EffectError::OtherInput { .. }
            | EffectError::Stale { .. } => Self::Unknown,
        }
    }
}

/// What the client hears whose command came to this. What the external system said is for the log.
impl From<EffectError> for Problem {
    fn from(error: EffectError) -> Self {
        tracing::warn!(event = "effect_failed", error = %error, "an effect has no result");
        let uncertain = |why: &str| {
            let hint = "Do not send the command with another key before it is settled.";
            Self::new(Code::OutcomeUncertain, format!("Whether the command took effect is unknown: {why}. {hint}"))
        };
        match error {
            EffectError::NotDone(_) => {
                let why = "An external system could not be reached, or did nothing. Send the same request with the same key again.";
                Self::new(Code::OperationReleased, why).retry_after(Duration::from_secs(1))
            }
            EffectError::Unknown(_) => uncertain(OPEN),
            EffectError::NoResult(_) => uncertain("the result of an effect is not at hand"),
            EffectError::OtherInput { .. } => uncertain("an effect was called with another input before"),
            EffectError::Stale { state } => stale(state.map(receipt_of)),
            EffectError::Store(error) => {
                let why = "The command could not go on. Send the same request with the same key again.";
                Self { detail: why.into(), ..Self::from(error) }
            }
        }
    }
}

/// In a handler under the layer this ends the attempt as it is: unknown makes the outcome uncertain, not done releases
/// the key. Elsewhere it is the answer alone.
impl IntoResponse for EffectError {
    fn into_response(self) -> Response {
        let cut_short = CutShort::from(&self);
        let mut response = Problem::from(self).into_response();
        response.extensions_mut().insert(cut_short);
        response
    }
}

/// What the record's state says to whoever lost the claim.
fn receipt_of(state: State) -> Receipt {
    Receipt::of(match state {
        State::InProgress => Word::InProgress,
        State::Completed => Word::Completed,
        State::Failed => Word::Failed,
        State::Released => Word::Released,
        State::Uncertain => Word::Uncertain,
        State::Expired => Word::Refused,
    })
}
