//! What stands before the store: actor, key, body, in this order, so that a `401` never consumes a key and
//! nothing is replayed before the caller is known.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderName;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use http_body::Body as _;
use http_body_util::BodyExt;
use samekey_core::fingerprint::{Fingerprint, Payload, fingerprint};
use samekey_core::problem::Code;
use samekey_core::select::Profile;
use samekey_core::{Actor, Key, Policy};
use std::time::Duration;
use tokio::time::{Instant, timeout};

use super::Shared;
use super::limits::{Budget, Reserved};
use crate::names;
use crate::problem::Problem;

/// From this size on a fingerprint is made off the async threads: 64 KiB take about as long as a hand-over.
const OFF_THREAD_BYTES: usize = 64 << 10;

/// Who asks, or why nobody is answered.
pub(crate) async fn actor(shared: &Shared, parts: &Parts, policy: &Policy) -> Result<Actor, Problem> {
    let problem = match shared.actor.of(parts, &shared.store).await {
        Ok(Some(actor)) => return Ok(actor),
        Ok(None) if policy.anonymous => return Ok(Actor::anonymous()),
        Ok(None) => Problem::new(Code::ActorRequired, shared.actor.required()),
        Err(problem) => problem,
    };
    if problem.code == Code::ActorRequired {
        shared.actor.explain_once();
    }
    Err(problem)
}

/// Whether a key that is known under another actor is refused: credentials rotate, and where nobody needs to sign in
/// a retry may come from the other side of a sign-in.
pub(crate) fn fences(shared: &Shared, policy: &Policy) -> bool {
    shared.actor.fences() || policy.anonymous
}

/// A page that was rendered for somebody else must not act as the one who signed in since: `expected` is whom the
/// request was made for.
pub(crate) fn expected(shared: &Shared, actor: &Actor, expected: &[http::HeaderValue]) -> Result<(), Problem> {
    match shared.actor.tag(actor, &shared.store) {
        Some(tag) if expected.iter().any(|expected| *expected != tag) => Err(Problem::new(
            Code::ActorChanged,
            "This request was made for another actor than the one who is signed in. Nothing was run.",
        )),
        _ => Ok(()),
    }
}

/// The caller's key; where it is the secret, one that nobody guesses.
pub(crate) fn key(shared: &Shared, parts: &Parts, policy: &Policy, actor: &Actor) -> Result<Key, Problem> {
    let is_secret = *actor == Actor::anonymous() || shared.actor.key_is_the_secret();
    key_of(parts, &shared.key_header, policy, is_secret)
}

/// The same, where no layer says who asks.
pub(crate) fn key_of(parts: &Parts, header: &HeaderName, policy: &Policy, is_secret: bool) -> Result<Key, Problem> {
    let lines = parts.headers.get_all(header).iter().map(http::HeaderValue::as_bytes);
    let key = Key::parse_lines(lines)
        .map_err(|error| Problem::new(Code::KeyInvalid, format!("{}: {error}.", spelled(header))))?
        .ok_or_else(|| {
            Problem::new(
                Code::KeyRequired,
                format!(
                    "{} requires the header {}, one value per intent, for example a UUID.",
                    policy.operation,
                    spelled(header)
                ),
            )
        })?;
    if is_secret && !key.contains_uuid_or_ulid() {
        let why = "Nothing but the key tells callers apart here: it must contain a UUID or a ULID.";
        return Err(Problem::new(Code::KeyInvalid, why));
    }
    Ok(key)
}

/// As people know it: a `HeaderName` is in lower case.
pub(crate) fn spelled(header: &HeaderName) -> &str {
    if *header == names::KEY { "Idempotency-Key" } else { header.as_str() }
}

/// How long a body may stand still, and how long it has before [`LEAST_BYTES_PER_SECOND`] counts.
const BODY_PATIENCE: Duration = Duration::from_secs(20);
/// A body that comes more slowly holds its share of the budget for longer than it is worth. GPRS is twice as fast;
/// 8 MiB take at most 35 minutes.
const LEAST_BYTES_PER_SECOND: u32 = 4 << 10;

/// A body that was read whole.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) reserved: Reserved,
}

/// Reads the body whole, within the operation's and the server's limits, and no more slowly than it must come.
pub(crate) async fn body(parts: &Parts, mut body: Body, policy: &Policy, budget: &Budget) -> Result<Read, Problem> {
    let too_large = || {
        let limit = policy.max_body_bytes;
        Problem::new(Code::PayloadTooLarge, format!("The body may have at most {limit} bytes."))
            .member("max_body", u64::try_from(limit).unwrap_or(u64::MAX))
    };
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    let least = usize::try_from(announced.unwrap_or(0).max(body.size_hint().lower())).unwrap_or(usize::MAX);
    if least > policy.max_body_bytes {
        return Err(too_large());
    }
    let mut reserved = Reserved::default();
    let mut first: Option<Bytes> = None;
    let mut more = BytesMut::new();
    let mut length = 0;
    let mut trailers = None;
    let begun = Instant::now();
    loop {
        let left = patience_left(begun.elapsed(), length);
        let Ok(frame) = timeout(left, body.frame()).await else {
            let why = "The request's body came too slowly. Nothing was run; send the same request again.";
            return Err(Problem::new(Code::BodyTimeout, why).retry_after(Duration::from_secs(1)));
        };
        let Some(frame) = frame else { break };
        // The framing broke or the client went away: nothing was claimed, and nobody may be left to hear it.
        let frame = frame
            .map_err(|_| Problem::new(Code::BodyInvalid, "The request's body ended early or broke its framing."))?;
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                trailers = frame.into_trailers().ok();
                continue;
            }
        };
        length += data.len();
        if length > policy.max_body_bytes {
            return Err(too_large());
        }
        if !budget.grow(&mut reserved, length) {
            let why = "Too many request bodies are held at once. Nothing was run; send the same request again.";
            return Err(Problem::new(Code::Overloaded, why).retry_after(Duration::from_secs(1)));
        }
        match first.take() {
            None if more.is_empty() => first = Some(data),
            earlier => {
                if let Some(earlier) = earlier {
                    more.reserve(least.max(length));
                    more.extend_from_slice(&earlier);
                }
                more.extend_from_slice(&data);
            }
        }
    }
    Ok(Read { bytes: first.unwrap_or_else(|| more.freeze()), trailers, reserved })
}

/// How long the next piece of a body may take, after so long and so many bytes.
fn patience_left(elapsed: Duration, length: usize) -> Duration {
    let earned = Duration::from_secs(length as u64) / LEAST_BYTES_PER_SECOND;
    (BODY_PATIENCE + earned).saturating_sub(elapsed).min(BODY_PATIENCE)
}

/// The fingerprint of a request under a profile.
pub(crate) async fn print(
    parts: &Parts,
    params: &[String],
    body: &Bytes,
    profile: &std::sync::Arc<Profile>,
) -> Fingerprint {
    if body.len() < OFF_THREAD_BYTES {
        return print_now(parts, params, body, profile);
    }
    let (parts_copy, params, body, profile) = (parts.clone(), params.to_vec(), body.clone(), profile.clone());
    off_thread_if_large(body.len(), move || print_now(&parts_copy, &params, &body, &profile)).await
}

/// Takes a fingerprint of so many bytes, where nobody waits behind it.
pub(crate) async fn off_thread_if_large<T: Send + 'static>(
    length: usize,
    take: impl FnOnce() -> T + Send + 'static,
) -> T {
    if length < OFF_THREAD_BYTES {
        return take();
    }
    match tokio::task::spawn_blocking(take).await {
        Ok(taken) => taken,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

pub(crate) fn print_now(parts: &Parts, params: &[String], body: &Bytes, profile: &Profile) -> Fingerprint {
    let params: Vec<&str> = params.iter().map(String::as_str).collect();
    let headers: Vec<(&str, &[u8])> = profile
        .headers()
        .iter()
        .flat_map(|name| parts.headers.get_all(name.as_str()).iter().map(|value| (name.as_str(), value.as_bytes())))
        .collect();
    // Two Content-Type lines are no media type that anybody agreed on: the bytes count.
    let single = |name| {
        let mut lines = parts.headers.get_all(name).iter();
        lines.next().filter(|_| lines.next().is_none()).map(http::HeaderValue::as_bytes)
    };
    fingerprint(
        &Payload {
            path_params: &params,
            query: parts.uri.query(),
            content_type: single(CONTENT_TYPE),
            content_encoding: parts
                .headers
                .contains_key(CONTENT_ENCODING)
                .then(|| single(CONTENT_ENCODING).unwrap_or(b"?")),
            headers: &headers,
            body,
        },
        profile,
    )
}

/// How long this delivery waits for another one: RFC 7240 `Prefer: wait=N` within the operation's limit.
pub(crate) fn patience(parts: &Parts, policy: &Policy) -> Duration {
    preferred_wait(parts).unwrap_or(policy.default_wait).min(policy.max_wait)
}

/// What `Prefer: wait=N` asks for.
pub(crate) fn preferred_wait(parts: &Parts) -> Option<Duration> {
    parts
        .headers
        .get_all(names::PREFER)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split([',', ';']))
        .filter_map(|preference| preference.trim().split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .and_then(|(_, value)| value.trim().trim_matches('"').parse().ok())
        .map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn a_retry_waits_as_long_as_it_prefers_within_the_limit() {
        let policy = Policy::new("a");
        for (prefer, seconds) in [
            (None, 5),
            (Some("wait=10"), 10),
            (Some("respond-async, Wait=7"), 7),
            (Some("wait=\"3\""), 3),
            (Some("wait=0"), 0),
            (Some("wait=9999999999"), 25),
            (Some("wait=soon"), 5),
            (Some("return=minimal"), 5),
        ] {
            let mut request = Request::post("/");
            if let Some(prefer) = prefer {
                request = request.header("prefer", prefer);
            }
            let parts = request.body(()).unwrap().into_parts().0;
            assert_eq!(patience(&parts, &policy), Duration::from_secs(seconds), "{prefer:?}");
        }
    }

    #[tokio::test]
    async fn a_body_is_read_whole_or_refused() {
        let policy = Policy::new("a").max_body(8);
        let budget = Budget::new(1 << 20);
        let parts = Request::post("/").body(()).unwrap().into_parts().0;
        let chunks = |chunks: &'static [&'static str]| {
            Body::from_stream(futures_util::stream::iter(chunks.iter().map(|chunk| Ok::<_, std::io::Error>(*chunk))))
        };
        let read = body(&parts, chunks(&["ab", "", "cd", "efgh"]), &policy, &budget).await.unwrap();
        assert_eq!(read.bytes, "abcdefgh");
        let read = body(&parts, Body::empty(), &policy, &budget).await.unwrap();
        assert_eq!(read.bytes, "");
        let refused = body(&parts, chunks(&["abcdefg", "hi"]), &policy, &budget).await.unwrap_err();
        assert_eq!(refused.code, Code::PayloadTooLarge);
        let refused = body(&parts, chunks(&["a"]), &policy, &Budget::new(0)).await.unwrap_err();
        assert_eq!(refused.code, Code::Overloaded);
        let announced = Request::post("/").header("content-length", "9").body(()).unwrap().into_parts().0;
        let refused = body(&announced, Body::empty(), &policy, &budget).await.unwrap_err();
        assert_eq!(refused.code, Code::PayloadTooLarge);
    }

    #[test]
    fn a_body_must_move_on() {
        let left = |elapsed_s, length| patience_left(Duration::from_secs(elapsed_s), length).as_secs();
        assert_eq!([left(0, 0), left(15, 1), left(20, 1), left(99, 1)], [20, 5, 0, 0], "one byte buys nothing");
        assert_eq!(left(0, 8 << 20), 20, "much at once, and then it stands still");
        assert_eq!(
            [left(30, 80 << 10), left(36, 80 << 10), left(41, 80 << 10)],
            [10, 4, 0],
            "20 s and 20 s for 80 KiB"
        );
        assert_eq!(left(2000, 8 << 20), 20, "slow, and fast enough");
    }
}
