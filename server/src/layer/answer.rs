//! Answers: the handler's own on its first way out, the stored one again, or a refusal that says what to do.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONNECTION, LOCATION, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use samekey_core::claim::{Record, Say};
use samekey_core::problem::Code;
use samekey_core::receipt::Receipt;
use samekey_core::response::is_stored;
use samekey_core::{Key, Policy, Recovery, Timestamp};

use crate::command::Outcome;
use crate::names;
use crate::problem::{Problem, stripe_would_repeat};
use crate::store::{Ask, StoredResponse, Told};

/// What of a whole answer is kept.
pub(crate) fn stored(parts: &Parts, body: &Bytes, policy: &Policy) -> StoredResponse {
    stored_of(&parts.headers, body, policy)
}

/// The same, of headers alone.
pub(crate) fn stored_of(headers: &HeaderMap, body: &Bytes, policy: &Policy) -> StoredResponse {
    let connection: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    let headers = headers
        .iter()
        .filter(|(name, _)| is_stored(name.as_str(), &policy.store_headers, &connection))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    StoredResponse { headers, body: body.clone() }
}

/// The id of what the command made: where the operation says, else the last segment of `Location`.
pub(crate) fn result_id(headers: &HeaderMap, body: Option<&Bytes>, policy: &Policy) -> Option<String> {
    let from_body = || {
        let document: serde_json::Value = serde_json::from_slice(body?).ok()?;
        match document.pointer(policy.result_id.as_deref()?)? {
            serde_json::Value::String(id) => Some(id.clone()),
            serde_json::Value::Number(id) => Some(id.to_string()),
            _ => None,
        }
    };
    let from_location = || {
        let path = headers.get(LOCATION)?.to_str().ok()?.split(['?', '#']).next()?;
        path.trim_end_matches('/').rsplit('/').next().filter(|segment| !segment.is_empty()).map(str::to_owned)
    };
    policy.result_id.as_ref().and_then(|_| from_body()).or_else(from_location)
}

/// The handler's own answer, with its receipt.
pub(crate) fn first(mut parts: Parts, body: Body, receipt: Receipt) -> Response {
    names::strip_ours(&mut parts.headers);
    crate::problem::is_the_handlers(&mut parts.extensions);
    // Only what comes out of the store is a replay.
    parts.headers.remove(names::REPLAYED);
    if stripe_would_repeat(parts.status, receipt.word) {
        parts.headers.entry(names::STRIPE_SHOULD_RETRY).or_insert(names::flag(false));
    }
    parts.headers.insert(names::STATE, names::value(&receipt));
    Response::from_parts(parts, body)
}

/// The stored answer, again.
pub(crate) fn replay(record: &Record, stored: StoredResponse) -> Response {
    Outcome::stored(record, stored).into_response()
}

/// What a delivery hears that does not run.
pub(crate) fn outcome(told: &Told, ask: &Ask) -> Result<Outcome, Problem> {
    match (told.say, &told.found, &told.response) {
        (Say::Replay, Some(found), Some(response)) => Ok(Outcome::stored(&found.record, response.clone())),
        (Say::Refuse(code), ..) => Err(refusal(code, told, &ask.key, &ask.policy)),
        (Say::Closed, ..) => Err(refusal(Code::KeyClosed, told, &ask.key, &ask.policy)),
        _ => Err(Problem::new(Code::StoreUnavailable, "The record could not be read. Nothing was run.")),
    }
}

/// A refusal by its code, with what the record tells about it.
pub(crate) fn refusal(code: Code, told: &Told, key: &Key, policy: &Policy) -> Problem {
    let record = told.found.as_ref().map(|found| &found.record);
    let mut problem = Problem::new(code, detail(code, record));
    problem.ietf = policy.ietf;
    problem.receipt = record.map(Record::receipt);
    problem.operation = told.found.as_ref().map(|found| found.operation.clone());
    match (code, record) {
        (Code::OperationInProgress, _) => problem.retry_after(Duration::from_secs(1)),
        (Code::QuotaExceeded, _) => problem.retry_after(Duration::from_secs(5)),
        (Code::Overloaded | Code::StoreUnavailable, _) => problem.retry_after(Duration::from_secs(1)),
        (Code::OutcomeUncertain, Some(record)) => match settles_by_itself(record, policy, told.now) {
            Some(wait) => problem.retry_after(wait),
            None => problem,
        },
        (Code::OperationReleased, record) => {
            let wait =
                record.and_then(|record| record.not_before).map_or(Duration::ZERO, |moment| moment.since(told.now));
            problem.retry_after(wait.max(Duration::from_secs(1)))
        }
        (Code::ResponseNotStored, Some(record)) => {
            if let Some(status) = record.status_code {
                problem = problem.member("status_code", status);
            }
            if let Some(id) = &record.result_id {
                problem = problem.member("result_id", id.as_str());
            }
            let stored = told.response.as_ref().map(|response| response.headers.as_slice()).unwrap_or_default();
            problem.location =
                stored.iter().find(|(name, _)| name == LOCATION).map(|(_, value)| Box::new(value.clone()));
            problem
        }
        (Code::KeyExpired, _) => {
            problem = problem.member("server_time", told.now.as_millis());
            match key.time(told.now, policy.clock_skew) {
                Some(time) => problem.member("key_time", time.as_millis()),
                None => problem,
            }
        }
        _ => problem,
    }
}

/// How long it takes at least until an uncertain record settles by itself, if it does.
pub(crate) fn settles_by_itself(record: &Record, policy: &Policy, now: Timestamp) -> Option<Duration> {
    let settles = matches!(policy.recovery, Recovery::Probe | Recovery::Rerun);
    let wait = record.settle_after.map_or(Duration::ZERO, |moment| moment.since(now));
    settles.then(|| wait.max(LEAST_WAIT))
}

/// What is due is asked about within a few seconds.
const LEAST_WAIT: Duration = Duration::from_secs(5);

fn detail(code: Code, record: Option<&Record>) -> Cow<'static, str> {
    let text = match code {
        Code::OperationInProgress => {
            "Wait, then send the same request with the same key: you get the answer of the first one."
        }
        Code::OutcomeUncertain => {
            let why = record.and_then(|record| record.reason).map_or("unknown", |reason| reason.as_str());
            let hint =
                "It will not run again by itself. Do not send the command with another key before it is settled.";
            return format!("An earlier delivery of this key ended without an answer that says what happened (reason: {why}). {hint}").into();
        }
        Code::KeyPayloadMismatch => {
            "Send the payload that the key was first used with, or a new key for a new command. Nothing was run."
        }
        Code::KeyExpired => {
            "Whether this command ever ran is no longer known here. Check before you send it with a new key."
        }
        Code::ResponseNotStored => {
            "Do not send it again: it ended as status_code says. Look the result up by result_id or Location."
        }
        Code::OperationReleased => {
            "An earlier delivery of this key did nothing. Send the same request with the same key later."
        }
        Code::KeyClosed => "Send the command with a new key if it is wanted after all.",
        Code::ActorChanged => {
            "Nothing was run. If this is still you after your credentials were renewed, look up whether the command took effect."
        }
        Code::QuotaExceeded => "Nothing was run. Send the same request with the same key when some of them have ended.",
        Code::Overloaded | Code::StoreUnavailable => "Nothing was run. Send the same request with the same key again.",
        _ => code.row().title,
    };
    text.into()
}

/// `Retry-After` as a delay: seconds or one of the three date forms (RFC 9110, section 10.2.3).
pub(crate) fn retry_after(parts: &Parts, now: Timestamp) -> Option<Duration> {
    let text = parts.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let millis = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis();
    Some(Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)).since(now))
}

/// What a panic of the handler answers; stored and replayed like any other terminal answer.
pub(crate) fn panicked() -> Response {
    let body = r#"{"type":"about:blank","title":"The handler panicked.","status":500}"#;
    let kind = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    (StatusCode::INTERNAL_SERVER_ERROR, [kind], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response as HttpResponse;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let builder =
            headers.iter().fold(HttpResponse::builder(), |builder, (name, value)| builder.header(*name, *value));
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_in_any_of_its_forms() {
        let now = Timestamp::from_millis(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT
        for (value, seconds) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            let parsed = retry_after(&parts(&[("retry-after", value)]), now);
            assert_eq!(parsed, seconds.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after(&parts(&[("retry-after", "99999999999999999999999")]), now), Some(Duration::MAX));
        assert_eq!(retry_after(&parts(&[]), now), None);
    }

    #[test]
    fn the_result_id_comes_from_the_body_or_from_location() {
        let policy = Policy::new("a");
        let by_pointer = Policy::new("a").result_id("/order/id");
        let body = Bytes::from_static(br#"{"order":{"id":17}}"#);
        let with_location = parts(&[("location", "https://shop.example/orders/o1/?x=1#y")]);
        assert_eq!(result_id(&with_location.headers, Some(&body), &policy).as_deref(), Some("o1"));
        assert_eq!(result_id(&with_location.headers, Some(&body), &by_pointer).as_deref(), Some("17"));
        assert_eq!(result_id(&with_location.headers, None, &by_pointer).as_deref(), Some("o1"));
        assert_eq!(result_id(&parts(&[]).headers, Some(&body), &policy), None);
        assert_eq!(result_id(&parts(&[("location", "/")]).headers, None, &policy), None);
    }

    #[test]
    fn repetition_and_order_of_stored_headers_are_kept() {
        let parts = parts(&[
            ("link", "<a>"),
            ("set-cookie", "s=1"),
            ("link", "<b>"),
            ("etag", "\"1\""),
            ("connection", "etag"),
        ]);
        let stored = stored(&parts, &Bytes::new(), &Policy::new("a"));
        let links: Vec<_> =
            stored.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(links, [("link", "<a>"), ("link", "<b>")]);
    }
}
