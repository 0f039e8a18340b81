//! How a claim goes on and ends: heartbeat, complete, fail, release, uncertain. Each may be repeated: the same end, said
//! again, is the same answer; another one is `claim_stale`.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use samekey_core::claim::{Event, Finish, Reason, Record, State};
use samekey_core::problem::Code;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::asked::{Asked, answer, invalid, request_invalid};
use super::held::{Held, forgotten, stale};
use super::json::{Json, Time, bytes, seconds};
use super::openapi::{Book, Doc};
use crate::admin::Scope;
use crate::claim::{MAX_WHY_CHARS, OPEN};
use crate::command::Answer;
use crate::layer::published;
use crate::observe;
use crate::problem::Problem;
use crate::store::{Applied, Note, StoredResponse};

/// What stands around an answer in a call.
const AROUND_BYTES: usize = 64 << 10;
/// A call that holds no answer.
const SHORT_BYTES: usize = 16 << 10;

/// The answer that ends a command; other deliveries get it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EndRequest {
    /// Of 2xx or 3xx where the command completes, 4xx or 5xx where it fails.
    #[schemars(range(min = 200, max = 599))]
    pub(super) status: Option<u16>,
    /// The body, kept as `application/json`.
    #[serde(default, deserialize_with = "Json::present")]
    pub(super) result: Option<Json>,
    /// The body, as bytes in base64; `headers` say what it is.
    pub(super) body_base64: Option<String>,
    /// Name and value.
    #[serde(default)]
    pub(super) headers: Vec<(String, String)>,
    /// What was made: remembered for longer than the body.
    #[schemars(length(min = 1, max = 255))]
    pub(super) result_id: Option<String>,
}

/// Nothing happened: the key may run again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReleaseRequest {
    /// Not before so long.
    retry_after: Option<Time>,
}

/// Nobody knows what happened.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UncertainRequest {
    /// For whoever settles it.
    why: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// How the record stands now.
#[derive(Debug, Serialize, JsonSchema)]
struct EndAnswer {
    state: EndState,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_id: Option<String>,
    /// Unix milliseconds: until then other deliveries get the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EndState {
    Completed,
    Failed,
    Released,
    Uncertain,
}

/// The claim goes on.
#[derive(Debug, Serialize, JsonSchema)]
struct Beat {
    /// Unix milliseconds.
    lease_until: i64,
    /// Unix milliseconds; after it the claim is not renewed.
    deadline: i64,
    /// Seconds.
    heartbeat_every: f64,
    /// Unix milliseconds of the same clock.
    server_time: i64,
}

/// What every call about a claim may hear.
pub(super) const ABOUT_A_CLAIM: &[Code] = &[
    Code::RequestInvalid,
    Code::BodyInvalid,
    Code::ClaimNotFound,
    Code::BodyTimeout,
    Code::ClaimStale,
    Code::PayloadTooLarge,
    Code::Overloaded,
    Code::StoreUnavailable,
];

pub(super) fn add(book: &mut Book<'_>) {
    let of = |name: &'static str| {
        let path = match name {
            "complete" => "/v1/claims/{claim_id}/complete",
            "fail" => "/v1/claims/{claim_id}/fail",
            "release" => "/v1/claims/{claim_id}/release",
            "uncertain" => "/v1/claims/{claim_id}/uncertain",
            _ => "/v1/claims/{claim_id}/heartbeat",
        };
        Doc::post(path, Scope::Claim, name).refuses(ABOUT_A_CLAIM)
    };
    let unfinished = &[Code::EffectUnfinished, Code::OutcomeUncertain];
    let again = "Repeated with the same status and result id it answers the same.";
    book.add(
        of("complete")
            .says("The command succeeded", again)
            .takes::<EndRequest>()
            .gives::<EndAnswer>(200, "It is completed; other deliveries get its answer.")
            .refuses(unfinished),
        complete,
    );
    book.add(
        of("fail")
            .says("The command failed for good", again)
            .takes::<EndRequest>()
            .gives::<EndAnswer>(200, "It is failed; other deliveries get its answer.")
            .refuses(unfinished),
        fail,
    );
    book.add(
        of("release")
            .says("Nothing happened", "The key may run again. May be repeated until it does.")
            .takes::<ReleaseRequest>()
            .gives::<EndAnswer>(200, "The key may run again.")
            .refuses(unfinished),
        release,
    );
    book.add(
        of("uncertain")
            .says("Nobody knows what happened", "Nothing runs until somebody settles the record. May be repeated.")
            .takes::<UncertainRequest>()
            .gives::<EndAnswer>(200, "The outcome is unknown until somebody settles the record."),
        uncertain,
    );
    book.add(
        of("heartbeat")
            .says("The holder is alive", "Moves the lease, up to the deadline. May be repeated.")
            .takes::<Nothing>()
            .gives::<Beat>(200, "The claim goes on."),
        heartbeat,
    );
}

impl Asked {
    /// The longest answer that is kept, as JSON or in base64. One that is longer is not: its status is.
    pub(super) fn answer_bytes(&self) -> usize {
        let largest = published(&self.api.shared).iter().map(|operation| operation.policy.max_response_bytes).max();
        largest.unwrap_or(0).saturating_mul(2).saturating_add(AROUND_BYTES)
    }

    pub(super) async fn end(&mut self) -> Result<EndRequest, Problem> {
        let at_most = self.answer_bytes();
        self.json(at_most).await
    }
}

impl EndRequest {
    /// Whether anything is said of the answer beyond its status.
    pub(super) fn has_body(&self) -> bool {
        self.result.is_some() || self.body_base64.is_some() || !self.headers.is_empty()
    }

    /// The answer, with this status unless it names one of the same kind.
    pub(super) fn answer(&self, default: u16, succeeds: bool) -> Result<Answer, Problem> {
        let status = self.status.unwrap_or(default);
        if (200..400).contains(&status) != succeeds || !(200..600).contains(&status) {
            let (kind, other) = if succeeds { ("200 to 399", "fail") } else { ("400 to 599", "complete") };
            return Err(invalid("status", format!("{status} is not from {kind}; to {other} is another call")));
        }
        let status = StatusCode::from_u16(status).map_err(|error| invalid("status", error))?;
        let mut answer = match (&self.result, &self.body_base64) {
            (Some(_), Some(_)) => {
                return Err(request_invalid("result and body_base64 exclude each other; send one of them"));
            }
            (Some(result), None) => {
                let json = HeaderValue::from_static("application/json");
                Answer { body: result.bytes(), ..Answer::empty(status) }.header(http::header::CONTENT_TYPE, json)
            }
            (None, Some(text)) => Answer { body: bytes("body_base64", text)?, ..Answer::empty(status) },
            (None, None) => Answer::empty(status),
        };
        for (at, (name, value)) in self.headers.iter().enumerate() {
            let (name, value) = header(at, name, value)?;
            if self.result.is_some() && name == http::header::CONTENT_TYPE {
                return Err(invalid(
                    "headers",
                    "a result is application/json; leave Content-Type out, or send body_base64",
                ));
            }
            answer.headers.append(name, value);
        }
        if let Some(id) = &self.result_id {
            if id.is_empty() || id.len() > 255 || id.chars().any(char::is_control) {
                return Err(invalid("result_id", "an id has 1 to 255 bytes and no control characters"));
            }
            answer.result_id = Some(id.clone());
        }
        Ok(answer)
    }
}

fn header(at: usize, name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Problem> {
    let member = format!("headers[{at}]");
    let parsed = name.parse().map_err(|error| invalid(&member, format!("{name:?} is no header name: {error}")))?;
    let value =
        value.parse().map_err(|error| invalid(&member, format!("the value of {name} cannot be one: {error}")))?;
    Ok((parsed, value))
}

async fn complete(mut asked: Asked) -> Result<Response, Problem> {
    let request = asked.end().await?;
    terminal(&asked, &request.answer(200, true)?).await
}

async fn fail(mut asked: Asked) -> Result<Response, Problem> {
    let request = asked.end().await?;
    if request.status.is_none() {
        return Err(invalid("status", "say how it failed, from 400 to 599"));
    }
    terminal(&asked, &request.answer(500, false)?).await
}

async fn terminal(asked: &Asked, said: &Answer) -> Result<Response, Problem> {
    let held = Held::of(asked).await?;
    held.no_effect_unfinished().await?;
    let (terminal, stored) = said.terminal(&held.policy);
    held.end(Finish::Terminal(terminal), Some(stored), None).await
}

async fn release(mut asked: Asked) -> Result<Response, Problem> {
    let request: ReleaseRequest = asked.json(SHORT_BYTES).await?;
    let held = Held::of(&asked).await?;
    held.no_effect_unfinished().await?;
    let not_before = request.retry_after.map(|Time(after)| held.store.now() + after);
    held.end(Finish::Released { not_before }, None, None).await
}

async fn uncertain(mut asked: Asked) -> Result<Response, Problem> {
    let request: UncertainRequest = asked.json(SHORT_BYTES).await?;
    let held = Held::of(&asked).await?;
    let why = request.why.map(|why| why.chars().take(MAX_WHY_CHARS).collect());
    held.end(Finish::Uncertain(Reason::Holder), None, why).await
}

async fn heartbeat(mut asked: Asked) -> Result<Response, Problem> {
    let Nothing {} = asked.json(SHORT_BYTES).await?;
    let held = Held::of(&asked).await?;
    let renew = Event::Renew(held.id.fence);
    match held.store.apply(held.id.record, Arc::clone(&held.policy), renew, None).await? {
        Applied { refused: None, record: Some(record) } => {
            let beat = Beat {
                lease_until: record.lease_until.as_millis(),
                deadline: record.deadline.as_millis(),
                heartbeat_every: seconds(held.id.lease / 3),
                server_time: held.store.now().as_millis(),
            };
            Ok(answer(StatusCode::OK, &beat))
        }
        Applied { record, .. } => Err(stale(record.as_ref())),
    }
}

impl Held {
    /// Writes how it ended, and says what the record says then.
    async fn end(
        &self,
        finish: Finish,
        response: Option<StoredResponse>,
        why: Option<String>,
    ) -> Result<Response, Problem> {
        let event = Event::Finish(self.id.fence, finish);
        let note = Note { who: None, why: why.clone() };
        let policy = Arc::clone(&self.policy);
        match self.store.apply_noted(self.id.record, policy, event, response, note).await? {
            Applied { record: None, .. } => Err(forgotten()),
            Applied { record: Some(record), refused: Some(_) } => {
                self.tell_stale(record.state);
                Err(stale(Some(&record)))
            }
            Applied { record: Some(record), refused: None } => {
                self.tell_uncertain(&record, why.as_deref());
                ended(&record)
            }
        }
    }

    /// Nobody but its holder knows why.
    fn tell_uncertain(&self, record: &Record, why: Option<&str>) {
        let before = &self.case.found.record;
        if record.state != State::Uncertain || (before.state, before.reason) == (record.state, record.reason) {
            return;
        }
        observe::uncertain(&observe::Uncertain {
            operation: &self.case.found.operation,
            record: self.id.record,
            attempt: self.id.fence.attempt,
            key_hash: Some(&self.store.log_hash("key", self.case.key.expose())),
            request_id: None,
            trace_id: None,
            reason: record.reason.map_or("unknown", Reason::as_str),
            age: self.store.now().since(record.created_at),
            why: if why.is_some() { "its holder says so; the record keeps why" } else { "its holder says so" },
        });
    }
}

fn ended(record: &Record) -> Result<Response, Problem> {
    let receipt = record.receipt();
    let state = match record.state {
        State::Uncertain if record.reason == Some(Reason::EarlierAttempt) => {
            let why = if record.effects.open > 0 { OPEN } else { "an earlier attempt may have taken effect" };
            let hint = "It will not run again by itself; an operator settles it.";
            let detail = format!("Whether the command took effect is unknown: {why}. {hint}");
            return Err(Problem::new(Code::OutcomeUncertain, detail).receipt(receipt));
        }
        State::Uncertain => EndState::Uncertain,
        State::Released => EndState::Released,
        _ if receipt.word == samekey_core::receipt::Word::Completed => EndState::Completed,
        _ => EndState::Failed,
    };
    let terminal = matches!(state, EndState::Completed | EndState::Failed);
    let body = EndAnswer {
        state,
        attempt: record.fence.attempt,
        status_code: record.status_code.filter(|_| terminal),
        result_id: record.result_id.clone().filter(|_| terminal),
        expires_at: record.expires_at.filter(|_| terminal).map(samekey_core::Timestamp::as_millis),
    };
    Ok(answer(StatusCode::OK, &body))
}
