//! Refusals as answers: RFC 9457 `application/problem+json` with `code` and `next`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LINK, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use samekey_core::problem::{Code, Next};
use samekey_core::receipt::{Receipt, Word};
use samekey_core::uri::percent_encoded;
use serde_json::{Map, Value, json};

use crate::names;
use crate::store::StoreError;

/// Where the problem pages, the status and the contract are served.
pub const DEFAULT_PREFIX: &str = "/.well-known/samekey";

/// A refusal, which is an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// The code that clients switch on.
    pub code: Code,
    /// What happened in this case, for people.
    pub detail: Cow<'static, str>,
    /// When to come back.
    pub retry_after: Option<Duration>,
    /// The receipt, where the record tells it.
    pub receipt: Option<Receipt>,
    /// The IETF draft's statuses.
    pub ietf: bool,
    /// Members of the answer beyond those every problem has.
    pub members: Map<String, Value>,
    /// Where the result is, for a command that is done.
    pub location: Option<Box<HeaderValue>>,
    /// With a 401: a token came along and is not accepted (RFC 6750, section 3.1).
    pub invalid_token: bool,
    /// The operation whose status tells more.
    pub operation: Option<String>,
}

impl Problem {
    /// A refusal with this code.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            retry_after: None,
            receipt: None,
            ietf: false,
            members: Map::new(),
            location: None,
            invalid_token: false,
            operation: None,
        }
    }

    /// Adds when to come back.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Adds what the record's receipt says.
    #[must_use]
    pub fn receipt(mut self, receipt: Receipt) -> Self {
        self.receipt = Some(receipt);
        self
    }

    /// Adds a member.
    #[must_use]
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Adds the operation whose status tells more.
    #[must_use]
    pub fn about(mut self, operation: impl Into<String>) -> Self {
        self.operation = Some(operation.into());
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status(self.ietf)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What `Samekey-State` says: the code's own word, or the record's. Parameters come from the record only
    /// where the code speaks of the record, so that a mismatch tells nothing of the other payload.
    fn state(&self) -> Option<Receipt> {
        match (self.code.row().word, self.receipt) {
            (Some(word), Some(receipt)) if word == receipt.word => Some(receipt),
            (Some(word), _) => Some(Receipt::of(word)),
            (None, receipt) => receipt,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.detail)
    }
}

impl std::error::Error for Problem {}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Unreachable { .. } => Code::StoreUnavailable,
            error if error.is_transient() => Code::Overloaded,
            _ => Code::StoreUnavailable,
        };
        // The error may name files and settings of the operator: it goes to the log, not to the caller.
        tracing::error!(event = "store_error", code = code.as_str(), error = %error, "the store refused");
        Self::new(code, "Nothing was run. Send the same request with the same key again.")
            .retry_after(Duration::from_secs(2))
    }
}

/// Whole seconds, rounded up: coming back too early would be refused again.
pub(crate) fn delay_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

/// Where an answer is given: what its references lead to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Where the pages and the status are served.
    pub(crate) prefix: &'a str,
    /// The operation of the request, unless the problem knows it better.
    pub(crate) operation: Option<&'a str>,
}

/// Goes with an answer that was made of a problem, so that the layer can finish it.
#[derive(Clone, Debug)]
struct Unfinished(Problem);

/// Completes a refusal with what only the layer knows, and tells its code. Every refusal on a covered route passes here once, on its way
/// out; other answers stay as they are.
pub(crate) fn finish(response: &mut Response, place: &Place<'_>) -> Option<Code> {
    let Unfinished(problem) = response.extensions_mut().remove()?;
    let code = problem.code;
    *response = problem.answer(place);
    Some(code)
}

/// An answer of the handler is the handler's, even if it is a problem of ours.
pub(crate) fn is_the_handlers(extensions: &mut http::Extensions) {
    extensions.remove::<Unfinished>();
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.clone().answer(&Place { prefix: DEFAULT_PREFIX, operation: None });
        response.extensions_mut().insert(Unfinished(self));
        response
    }
}

impl Problem {
    /// The answer, with references that lead to this place.
    pub(crate) fn answer(self, place: &Place<'_>) -> Response {
        let prefix = place.prefix;
        let link = self.link(place);
        let row = self.code.row();
        let state = self.state();
        let mut body = Map::new();
        body.insert("type".into(), format!("{prefix}/problems/{}", row.name).into());
        body.insert("title".into(), row.title.into());
        body.insert("status".into(), self.status().as_u16().into());
        body.insert("detail".into(), self.detail.as_ref().into());
        body.insert("code".into(), row.name.into());
        body.insert("next".into(), row.next.as_str().into());
        if let Some(attempt) = state.and_then(|receipt| receipt.attempt) {
            body.insert("attempt".into(), attempt.into());
        }
        if let Some(after) = self.retry_after {
            body.insert("retry_after".into(), delay_seconds(after).into());
        }
        // Stripe's SDK for JavaScript looks at no status: an answer without `error` would resolve as the object that
        // was asked for. The one for Python shows the message only.
        let message = format!("{}: {}", row.name, self.detail);
        let error = json!({ "type": "idempotency_error", "code": row.name, "message": message });
        body.insert("error".into(), error);
        body.extend(self.members.clone());

        let mut response = Response::new(Body::from(json!(body).to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(receipt) = state {
            headers.insert(names::STATE, names::value(&receipt));
        }
        headers.insert(names::STRIPE_SHOULD_RETRY, names::flag(row.stripe_should_retry));
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(delay_seconds(after)));
        }
        if let Some(location) = self.location {
            headers.insert(LOCATION, *location);
        }
        if row.next == Next::SignIn {
            // RFC 9110, section 15.5.2: a 401 names at least one challenge.
            let challenge = match self.invalid_token {
                false => "Bearer realm=\"samekey\"",
                true => "Bearer realm=\"samekey\", error=\"invalid_token\"",
            };
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(link) = link {
            headers.insert(LINK, names::value(&link));
        }
        response
    }

    /// Where to look further: at the status while the outcome is open, at the page where the request is to be mended.
    fn link(&self, place: &Place<'_>) -> Option<String> {
        let prefix = place.prefix;
        match self.code {
            Code::OperationInProgress | Code::OutcomeUncertain | Code::UpstreamTimeout => {
                let operation = percent_encoded(self.operation.as_deref().or(place.operation)?);
                Some(format!("<{prefix}/status?operation={operation}>; rel=\"status\""))
            }
            code if code.row().status == 400 => {
                Some(format!("<{prefix}/problems/{}>; rel=\"describedby\"", code.as_str()))
            }
            _ => None,
        }
    }
}

/// A problem without a code or a receipt: what it answers was not decided by the rules of keys.
pub(crate) fn plain(status: StatusCode, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

/// Whether a terminal answer would make Stripe's SDKs send the same key again, only to hear it again.
pub(crate) fn stripe_would_repeat(status: StatusCode, word: Word) -> bool {
    matches!(word, Word::Completed | Word::Failed) && (status == StatusCode::CONFLICT || status.is_server_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_tells_nothing_of_the_other_payload() {
        let other = Receipt { word: Word::Completed, effect_unknown: false, attempt: Some(3) };
        let answer = Problem::new(Code::KeyPayloadMismatch, "").receipt(other).into_response();
        assert_eq!(answer.headers()["samekey-state"], "refused");
        assert_eq!(answer.headers()["stripe-should-retry"], "false");
    }

    #[tokio::test]
    async fn every_code_has_a_status_that_exists() {
        for code in Code::ALL {
            let answer = Problem::new(*code, "").into_response();
            assert_eq!(answer.status().as_u16(), code.row().status);
            assert_eq!(answer.headers().contains_key("www-authenticate"), answer.status() == 401);
            let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&body["code"], &body["error"]["code"]), (&json!(code.as_str()), &json!(code.as_str())));
        }
        let problem = Problem { ietf: true, ..Problem::new(Code::KeyPayloadMismatch, "") };
        assert_eq!(problem.status(), 422);
    }

    #[test]
    fn retry_after_is_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(delay_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
