//! A command for programs that call samekey as a library: what it is bound to, and what it came to.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use samekey_core::claim::{Reason, Record, Terminal};
use samekey_core::fingerprint::{self as core, Payload};
use samekey_core::receipt::Receipt;
use samekey_core::select::{Profile, SelectError, Significant};
use samekey_core::{Actor, Keep, Key, Policy};
use serde::Serialize;

use crate::layer::answer;
use crate::names;
use crate::problem::stripe_would_repeat;
use crate::store::StoredResponse;

/// What a command asks for, in 32 bytes, and the profile it was taken under.
#[derive(Clone)]
pub struct Fingerprint {
    pub(crate) taken: core::Fingerprint,
    pub(crate) profile: Arc<Profile>,
    /// Takes it again under another profile: a record is compared under the one it was made with.
    pub(crate) again: Option<Arc<Again>>,
}

/// The fingerprint of the same payload under another profile.
pub(crate) type Again = dyn Fn(&Profile) -> core::Fingerprint + Send + Sync;

impl Fingerprint {
    /// Of a value's JSON, whatever the order of its members.
    ///
    /// # Errors
    /// If the value has no JSON form, as a map whose keys are no strings.
    pub fn of_json<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        Ok(Self::of(b"application/json".to_vec().into(), None, body.into(), Arc::new(Profile::default())))
    }

    /// Of a request's body and query, as the layer takes it.
    ///
    /// # Errors
    /// If a significant field cannot be used.
    pub fn of_body(
        content_type: Option<&str>,
        query: Option<&str>,
        body: &[u8],
        significant: &Significant,
    ) -> Result<Self, SelectError> {
        let profile = Arc::new(Profile::new(None, significant.clone())?);
        let content_type = content_type.map(|kind| Bytes::copy_from_slice(kind.as_bytes()));
        Ok(Self::of(content_type.unwrap_or_default(), query.map(str::to_owned), Bytes::copy_from_slice(body), profile))
    }

    /// Where nothing is compared.
    pub(crate) fn of_nothing() -> Self {
        Self::of(Bytes::new(), None, Bytes::new(), Arc::new(Profile::default()))
    }

    fn of(content_type: Bytes, query: Option<String>, body: Bytes, profile: Arc<Profile>) -> Self {
        let again: Arc<Again> = Arc::new(move |profile: &Profile| {
            let content_type = (!content_type.is_empty()).then_some(&content_type[..]);
            core::fingerprint(
                &Payload { content_type, query: query.as_deref(), body: &body, ..Payload::default() },
                profile,
            )
        });
        Self { taken: again(&profile), profile, again: Some(again) }
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.taken.fmt(f)
    }
}

/// One delivery of a command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Command {
    /// Who asks.
    pub actor: Actor,
    /// The operation's stable name.
    pub operation: Cow<'static, str>,
    /// One per intent.
    pub key: Key,
    /// What is asked for.
    pub fingerprint: Fingerprint,
    /// One per delivery.
    pub request_id: Option<String>,
    /// Further names under which a record is found.
    pub(crate) also: Vec<String>,
}

impl Command {
    /// A command of this actor.
    pub fn new(actor: Actor, operation: impl Into<Cow<'static, str>>, key: Key, fingerprint: Fingerprint) -> Self {
        Self { actor, operation: operation.into(), key, fingerprint, request_id: None, also: Vec::new() }
    }
}

/// The answer that ends an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// 2xx and 3xx complete the command, others fail it.
    pub status: StatusCode,
    /// Stored as far as they may be replayed.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The id of what was made; remembered longer than the body.
    pub result_id: Option<String>,
}

impl Answer {
    /// An answer with a JSON body.
    ///
    /// # Panics
    /// If the value has no JSON form: a programming error, as with axum's `Json`.
    #[track_caller]
    pub fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Self {
        let body = serde_json::to_vec(value).expect("an answer's value has a JSON form");
        Self { body: body.into(), ..Self::empty(status) }
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    /// An answer without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Bytes::new(), result_id: None }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Names what was made.
    #[must_use]
    pub fn result_id(mut self, id: impl Into<String>) -> Self {
        self.result_id = Some(id.into());
        self
    }

    /// As the end of a command: what the record holds of it, and what is kept beside.
    pub(crate) fn terminal(&self, policy: &Policy) -> (Terminal, StoredResponse) {
        let status = self.status.as_u16();
        let keeps = policy.keep == Keep::Full && self.body.len() <= policy.max_response_bytes;
        let terminal = Terminal {
            status: Some(status),
            reason: (!(200..500).contains(&status)).then_some(Reason::ServerError),
            result_id: self.result_id.clone().or_else(|| answer::result_id(&self.headers, Some(&self.body), policy)),
            has_response: keeps,
        };
        // Without its body an answer keeps its headers: `Location` goes with `response_not_stored`.
        let body = if keeps { self.body.clone() } else { Bytes::new() };
        (terminal, answer::stored_of(&self.headers, &body, policy))
    }
}

impl From<http::Response<Bytes>> for Answer {
    fn from(response: http::Response<Bytes>) -> Self {
        let (parts, body) = response.into_parts();
        Self { status: parts.status, headers: parts.headers, body, result_id: None }
    }
}

/// What a delivery came to: the answer of this run, or the stored one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// The answer.
    pub answer: Answer,
    /// It was stored by an earlier delivery.
    pub replayed: bool,
    pub(crate) receipt: Receipt,
}

impl Outcome {
    /// The stored answer of a record, again.
    pub(crate) fn stored(record: &Record, stored: StoredResponse) -> Self {
        let status = record.status_code.and_then(|status| StatusCode::from_u16(status).ok());
        let mut answer = Answer::empty(status.unwrap_or_default());
        for (name, value) in stored.headers {
            answer.headers.append(name, value);
        }
        answer.body = stored.body;
        answer.result_id.clone_from(&record.result_id);
        Self { answer, replayed: true, receipt: record.receipt() }
    }
}

impl IntoResponse for Outcome {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.answer.body));
        *response.status_mut() = self.answer.status;
        *response.headers_mut() = self.answer.headers;
        let status = response.status();
        let headers = response.headers_mut();
        names::strip_ours(headers);
        if stripe_would_repeat(status, self.receipt.word) {
            headers.entry(names::STRIPE_SHOULD_RETRY).or_insert(names::flag(false));
        }
        headers.insert(names::STATE, names::value(&self.receipt));
        if self.replayed {
            headers.insert(names::REPLAYED, names::flag(true));
        } else {
            headers.remove(names::REPLAYED);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_and_its_body_have_the_same_fingerprint() {
        let value = Fingerprint::of_json(&serde_json::json!({ "sku": "tea", "n": 1 })).unwrap();
        let body = br#"{ "n": 1.0, "sku": "tea" }"#;
        let sent = Fingerprint::of_body(Some("application/json"), None, body, &Significant::everything()).unwrap();
        assert_eq!(value.taken, sent.taken);
        let other =
            Fingerprint::of_body(Some("application/json"), Some("x=1"), body, &Significant::everything()).unwrap();
        assert_ne!(value.taken, other.taken);
        assert!(Fingerprint::of_body(None, None, b"", &Significant::exclude(["ui"])).is_err());
    }

    #[test]
    fn an_outcome_is_an_answer_with_its_receipt() {
        let receipt = Receipt { attempt: Some(2), ..Receipt::of(samekey_core::receipt::Word::Completed) };
        let answer = Answer::json(StatusCode::CREATED, &1).header(names::STATE, HeaderValue::from_static("forged"));
        let response = Outcome { answer, replayed: true, receipt }.into_response();
        assert_eq!(response.headers()[names::STATE], "completed;attempt=2");
        assert_eq!(response.headers()[names::REPLAYED], "true");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    }
}
