//! `GET status?operation=…`: how a key stands, for the caller whose key it is.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use samekey_core::claim::{Ended, Event, Reason, Record, State as RecordState};
use samekey_core::problem::Next;
use samekey_core::receipt::{Receipt, Word};
use samekey_core::{Policy, Timestamp};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until};

use super::Caller;
use crate::claim::{LOOK_AGAIN_LEAST, LOOK_AGAIN_MOST};
use crate::layer::answer::settles_by_itself;
use crate::layer::{Shared, admit};
use crate::names;
use crate::problem::{Problem, delay_seconds};
use crate::store::{Ask, Found, Store};

/// How long a client waits that asks again by itself.
const ASK_AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn get(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let caller = match Caller::admit(&shared, request.into_parts().0).await {
        Ok(caller) => caller,
        Err(refusal) => return refusal,
    };
    let patience =
        admit::preferred_wait(&caller.parts).map_or(Duration::ZERO, |wait| wait.min(caller.ask.policy.max_wait));
    let response = match look(&shared, &caller.ask, patience).await {
        Ok(None) if caller.passes => not_covered(&caller.ask, &shared.store),
        Ok(found) => answer(found.as_ref(), &caller.ask, &shared.store),
        Err(problem) => problem.into_response(),
    };
    caller.finish(response, &shared, "status")
}

/// The record as it is now; with patience, until it is settled or at least in another state.
async fn look(shared: &Shared, ask: &Ask, patience: Duration) -> Result<Option<Found>, Problem> {
    let until = Instant::now() + patience;
    // Watched first, then looked: no change falls between the two.
    let mut watch = (!patience.is_zero()).then(|| shared.store.watch(ask));
    let first = judged(&shared.store, ask).await?;
    let open = |found: &Option<Found>| {
        let state = found.as_ref().map(|found| found.record.state);
        state.filter(|state| matches!(state, RecordState::InProgress | RecordState::Uncertain))
    };
    let (Some(state), Some(watch)) = (open(&first), watch.as_mut()) else { return Ok(first) };
    let Some(_seat) = shared.waiting.enter(&ask.actor, &ask.key) else { return Ok(first) };
    let mut now = first;
    loop {
        let lapses = now.as_ref().map_or(Duration::MAX, |found| found.record.lease_until.since(shared.store.now()));
        let look_again = Instant::now() + lapses.clamp(LOOK_AGAIN_LEAST, LOOK_AGAIN_MOST);
        tokio::select! {
            () = watch.changed() => {}
            () = sleep_until(look_again) => {}
            () = sleep_until(until) => return Ok(now),
        }
        now = judged(&shared.store, ask).await?;
        if open(&now) != Some(state) {
            return Ok(now);
        }
    }
}

/// The record, after a claim that lapsed was judged: nobody is told that something runs when nobody knows.
async fn judged(store: &Store, ask: &Ask) -> Result<Option<Found>, Problem> {
    let Some(found) = store.find(ask).await? else { return Ok(None) };
    let (record, now) = (&found.record, store.now());
    let silent = record.state == RecordState::InProgress && (now >= record.lease_until || now >= record.deadline);
    if !silent || !store.may_judge(ask.policy.lease) {
        return Ok(Some(found));
    }
    let applied = store.apply(found.id, Arc::clone(&ask.policy), Event::Tick, None).await?;
    Ok(applied.record.map(|record| Found { record, ..found }))
}

/// The operation's requests pass without a record, so nobody here knows whether one was sent.
pub(super) fn not_covered(ask: &Ask, store: &Store) -> Response {
    absent(Word::NotCovered, Next::Ask, ask, store)
}

/// There is no record for this caller, and what that means.
fn absent(word: Word, next: Next, ask: &Ask, store: &Store) -> Response {
    let key_hash = store.log_hash("key", ask.key.expose());
    let body = json!({
        "state": word.as_str(), "next": next.as_str(), "operation": ask.operation, "key_hash": key_hash,
        "server_time": store.now().as_millis(),
    });
    told(StatusCode::NOT_FOUND, &body, Receipt::of(word))
}

fn told(status: StatusCode, body: &Value, receipt: Receipt) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(names::STATE, names::value(&receipt));
    response
}

/// What is told of a record, or that there is none for this caller.
pub(super) fn answer(found: Option<&Found>, ask: &Ask, store: &Store) -> Response {
    let Some(found) = found else { return absent(Word::None, Next::RetrySameKey, ask, store) };
    let now = store.now();
    let key_hash = store.log_hash("key", ask.key.expose());
    let retry_after = retry_after(&found.record, &ask.policy, now);
    let mut response = told(StatusCode::OK, &described(found, retry_after, &key_hash, now), found.record.receipt());
    if let Some(after) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(delay_seconds(after)));
    }
    response
}

fn retry_after(record: &Record, policy: &Policy, now: Timestamp) -> Option<Duration> {
    match record.state {
        RecordState::InProgress => Some(ASK_AGAIN),
        RecordState::Uncertain => settles_by_itself(record, policy, now),
        RecordState::Released => record.not_before.map(|moment| moment.since(now)).filter(|wait| !wait.is_zero()),
        _ => None,
    }
}

/// Public of a record is what its own deliveries would hear.
fn described(found: &Found, retry_after: Option<Duration>, key_hash: &str, now: Timestamp) -> Value {
    let Found { operation, record, .. } = found;
    let receipt = record.receipt();
    let closed = record.ended == Some(Ended::Closed);
    let kept = record.has_response && record.expires_at.is_some_and(|expires| now < expires);
    let mut body = Map::new();
    let mut tell = |name: &str, value: Value| {
        if !value.is_null() {
            body.insert(name.into(), value);
        }
    };
    tell("state", if closed { "closed" } else { receipt.word.as_str() }.into());
    tell("next", next(record, kept).as_str().into());
    tell("operation", operation.as_str().into());
    tell("attempt", receipt.attempt.into());
    tell("effect", receipt.effect_unknown.then_some("unknown").into());
    tell("reason", record.reason.map(Reason::as_str).into());
    tell("status_code", record.status_code.into());
    tell("result_id", record.result_id.as_deref().into());
    if matches!(receipt.word, Word::Completed | Word::Failed) {
        tell("response_stored", kept.into());
    }
    tell("retry_after", retry_after.map(delay_seconds).into());
    tell("created_at", record.created_at.as_millis().into());
    tell("finished_at", record.finished_at.map(Timestamp::as_millis).into());
    tell("expires_at", record.expires_at.map(Timestamp::as_millis).into());
    tell("key_hash", key_hash.into());
    tell("server_time", now.as_millis().into());
    Value::Object(body)
}

fn next(record: &Record, kept: bool) -> Next {
    match record.state {
        RecordState::InProgress => Next::Wait,
        RecordState::Uncertain => Next::FollowStatus,
        RecordState::Released => Next::RetrySameKey,
        RecordState::Expired if record.ended == Some(Ended::Closed) => Next::NewIntent,
        // The same request gets the answer itself.
        RecordState::Completed | RecordState::Failed if kept => Next::RetrySameKey,
        RecordState::Completed | RecordState::Failed | RecordState::Expired => Next::Done,
    }
}
