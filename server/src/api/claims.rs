//! `POST /v1/claims`: the right to run a command, for a holder that has a name.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use samekey_core::claim::{Event, Fence, Holder, Say};
use samekey_core::problem::Code;
use samekey_core::select::Profile;
use samekey_core::{Actor, Key, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Api;
use super::asked::{Asked, answer, invalid};
use super::claim_id::ClaimId;
use super::held::stale;
use super::json::{Json, Time, base64, seconds};
use super::openapi::{Book, Doc};
use super::payload::Payload;
use crate::admin::{PATIENCE, Scope};
use crate::claim::{Asked as AskedAt, wait};
use crate::command::Outcome;
use crate::layer::{actor_of, answer as refusals, by_name, published};
use crate::observe::{self, Decision};
use crate::problem::Problem;
use crate::store::{Applied, Ask, Found, Told};

/// What stands around a payload in a call, names and escapes among it.
const AROUND_BYTES: usize = 64 << 10;
/// As long as the longest that a store's unique index holds of a key.
const MAX_HOLDER_BYTES: usize = 255;
/// What the listener's patience leaves for the rest of a call.
const MAX_WAIT: Duration = Duration::from_secs(PATIENCE.as_secs() - 5);

/// A command that a program is about to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [
    { "required": ["payload"] },
    { "required": ["payload_base64", "content_type"] },
    { "required": ["fingerprint"] },
]))]
struct ClaimRequest {
    /// Whose command it is, as deliveries over HTTP name their caller.
    #[schemars(length(min = 1, max = 512))]
    actor: String,
    /// The name of a configured operation.
    operation: String,
    /// One per intent, for instance the id of the message.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[\x21-\x7e]+$"))]
    key: String,
    /// What the command is about.
    #[serde(default, deserialize_with = "Json::present")]
    payload: Option<Json>,
    /// The same, as bytes in base64.
    payload_base64: Option<String>,
    /// The media type of `payload_base64`.
    content_type: Option<String>,
    /// Instead of a payload: its fingerprint, as `samekey fingerprint` prints it.
    fingerprint: Option<String>,
    /// Names this run of this program; asking again under it gives the same claim. A new one for each time that a
    /// message is taken up.
    #[schemars(length(min = 1, max = 255))]
    holder: String,
    /// How long the claim stands without a heartbeat; at least the operation's own.
    lease: Option<Time>,
    /// How long the claim may be renewed; the operation's own unless this says otherwise.
    timeout: Option<Time>,
    /// One per delivery; whoever looks for the record finds it by this, too.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[\x21-\x7e]+$"))]
    request_id: Option<String>,
    /// How long to wait for another holder that is at work.
    wait: Option<Time>,
}

/// A claim that is held.
#[derive(Debug, Serialize, JsonSchema)]
struct Claimed {
    /// Names this attempt in every further call.
    claim_id: String,
    state: InProgress,
    /// The record's number, for operators.
    record: i64,
    /// The number of this run: greater than 1 after one that was released, or may be repeated.
    attempt: u32,
    /// A key for an external system: the same on every attempt. Each effect has one of its own.
    provider_key: String,
    /// Unix milliseconds; a heartbeat before then moves it.
    lease_until: i64,
    /// Unix milliseconds; after it the claim is not renewed.
    deadline: i64,
    /// Seconds.
    heartbeat_every: f64,
    /// Unix milliseconds of the same clock.
    server_time: i64,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
enum InProgress {
    #[serde(rename = "in_progress")]
    InProgress,
}

/// The command ran before.
#[derive(Debug, Serialize, JsonSchema)]
struct Replayed {
    state: Ended,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// `unknown`: it failed, and may have had its effect all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Unknown>,
    /// What was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_id: Option<String>,
    answer: StoredAnswer,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Ended {
    Completed,
    Failed,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Unknown {
    Unknown,
}

/// The answer that ended a command.
#[derive(Debug, Serialize, JsonSchema)]
struct StoredAnswer {
    status: u16,
    /// Name and value, in order.
    headers: Vec<(String, String)>,
    /// The body, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    /// The body, if it is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

pub(super) fn add(book: &mut Book<'_>) {
    let doc = Doc::post("/v1/claims", Scope::Claim, "claim")
        .says("Claim a command", "The same holder that asks again gets the same claim, with a full lease.")
        .takes::<ClaimRequest>()
        .gives::<Claimed>(201, "The claim is held: run the command, and say how it ends.")
        .gives::<Replayed>(200, "It ran before; this is its answer.")
        .refuses(&[
            Code::RequestInvalid,
            Code::BodyInvalid,
            Code::KeyInvalid,
            Code::PayloadTooLarge,
            Code::BodyTimeout,
            Code::OperationInProgress,
            Code::OutcomeUncertain,
            Code::KeyPayloadMismatch,
            Code::ResponseNotStored,
            Code::OperationReleased,
            Code::KeyClosed,
            Code::ClaimStale,
            Code::KeyExpired,
            Code::QuotaExceeded,
            Code::Overloaded,
            Code::StoreUnavailable,
        ]);
    book.add(doc, claim);
}

impl Api {
    /// The longest call: the payload may be escaped or in base64.
    fn claim_bytes(&self) -> usize {
        let largest = published(&self.shared).iter().map(|operation| operation.policy.max_body_bytes).max();
        largest.unwrap_or(0).saturating_mul(2).saturating_add(AROUND_BYTES)
    }
}

async fn claim(mut asked: Asked) -> Result<Response, Problem> {
    let at_most = asked.api.claim_bytes();
    let request: ClaimRequest = asked.json(at_most).await?;
    let shared = Arc::clone(&asked.api.shared);
    let store = &shared.store;
    let patience = request.wait;
    let began = Instant::now();
    let (mut ask, payload) = asked.api.ask(request).await?;
    let (mut asked_again, mut waited) = (false, false);
    let outcome = loop {
        let asked_at = AskedAt::now(store);
        let told = match store.peek(&ask).await? {
            Some(told) => told,
            None => store.deliver(ask.clone()).await?,
        };
        match told.say {
            Say::Run(fence) => break won(&asked.api, &ask, told, fence, asked_at).await,
            Say::OtherProfile(_) if !asked_again => {
                asked_again = true;
                let Some(profile) = told.profile else { break refusals::outcome(&told, &ask).map(replayed) };
                let profile = Arc::new(profile);
                ask.fingerprint = payload.under(&profile).await?;
                ask.profile = profile;
            }
            Say::Wait => {
                let Some(_seat) = shared.waiting.enter(&ask.actor, &ask.key) else {
                    break Err(refusals::refusal(Code::OperationInProgress, &told, &ask.key, &ask.policy));
                };
                waited = true;
                let _waits = observe::waiting(&observe::label(true, &ask.policy.operation));
                let patience = patience.map_or(ask.policy.default_wait, |Time(wait)| wait);
                let told = wait(store, &ask, told, patience.min(ask.policy.max_wait).min(MAX_WAIT)).await?;
                break refusals::outcome(&told, &ask).map(replayed);
            }
            _ => break refusals::outcome(&told, &ask).map(replayed),
        }
    };
    note(&asked, &ask, &outcome, waited, began.elapsed());
    outcome
}

impl Api {
    /// The delivery that a request stands for.
    async fn ask(&self, request: ClaimRequest) -> Result<(Ask, Payload), Problem> {
        let shared = &self.shared;
        let actor = actor_of(&request.actor)
            .ok_or_else(|| invalid("actor", "an id has 1 to 512 bytes and no control characters"))?;
        let key: Key = request.key.parse().map_err(|error| Problem::new(Code::KeyInvalid, format!("key: {error}.")))?;
        let name = request.operation;
        let configured = by_name(shared, &name).filter(|route| route.configured);
        let route = configured.ok_or_else(|| {
            invalid("operation", format!("{name:?} is not configured; name it in samekey.toml: [[operation]] name = …"))
        })?;
        let payload = Payload::of(
            request.payload.as_ref(),
            request.payload_base64.as_deref(),
            request.content_type,
            request.fingerprint.as_deref(),
        )?;
        payload.check_size(&route.policy)?;
        if request.holder.is_empty() || request.holder.len() > MAX_HOLDER_BYTES {
            return Err(invalid("holder", format!("it has 1 to {MAX_HOLDER_BYTES} bytes; a UUID, say")));
        }
        let is_id = |id: &str| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        if request.request_id.as_deref().is_some_and(|id| !is_id(id)) {
            return Err(invalid("request_id", "an id has 1 to 128 visible ASCII characters"));
        }
        let policy = match (request.lease, request.timeout) {
            (None, None) => Arc::clone(&route.policy),
            (lease, timeout) => Arc::new(own_times(&route.policy, lease, timeout)?),
        };
        let profile: Arc<Profile> = route.profile;
        let ask = Ask {
            holder: self.holder(&actor, &key, &request.holder),
            actor,
            operation: route.operation,
            also: route.also,
            configured: true,
            named: route.named,
            key,
            fingerprint: payload.under(&profile).await?,
            profile,
            request_id: request.request_id.as_deref().map(Arc::from),
            policy,
            fence_credentials: false,
        };
        Ok((ask, payload))
    }

    /// The nonce of a holder, which nobody can guess by its name.
    fn holder(&self, actor: &Actor, key: &Key, name: &str) -> Holder {
        let parts = [actor.stored(), key.expose(), name].map(str::as_bytes);
        let hash = self.shared.store.keyed_hash("holder", &parts);
        Holder::from_bytes(std::array::from_fn(|at| hash[at]))
    }
}

/// The contract with times of the claim's own. What may be under way after its deadline stays as long as it is.
fn own_times(policy: &Policy, lease: Option<Time>, timeout: Option<Time>) -> Result<Policy, Problem> {
    let mut own = policy.clone();
    if let Some(Time(lease)) = lease {
        if lease < policy.lease {
            let why = format!(
                "the operation's own is {:?}, by which servers judge who is silent; ask for more",
                policy.lease
            );
            return Err(invalid("lease", why));
        }
        own.lease = lease;
    }
    if let Some(Time(timeout)) = timeout {
        let after = policy.probe_after().saturating_sub(policy.timeout);
        own.timeout = timeout;
        own.probe_after = Some(policy.probe_after().max(timeout.saturating_add(after)));
    }
    let member = if timeout.is_some() { "timeout" } else { "lease" };
    own.check().map_err(|error| invalid(member, error))?;
    Ok(own)
}

async fn won(api: &Api, ask: &Ask, told: Told, fence: Fence, asked_at: AskedAt) -> Result<Response, Problem> {
    let store = &api.shared.store;
    let Some(Found { id, operation, mut record, .. }) = told.found else {
        return Err(Problem::new(Code::StoreUnavailable, "The record could not be read."));
    };
    // Heard so late that it may have been lost since, or asked for again: its holder gets a full lease.
    let full = (store.now() + ask.policy.lease * 2 / 3).min(record.deadline);
    if asked_at.elapsed() > ask.policy.lease / 3 || record.lease_until < full {
        match store.apply(id, Arc::clone(&ask.policy), Event::Renew(fence), None).await? {
            Applied { refused: None, record: Some(renewed) } => record = renewed,
            Applied { record, .. } => return Err(stale(record.as_ref())),
        }
    }
    let claim = ClaimId { record: id, fence, lease: ask.policy.lease };
    let claimed = Claimed {
        claim_id: claim.to_text(store),
        state: InProgress::InProgress,
        record: id.0,
        attempt: fence.attempt,
        provider_key: store.provider_key(&ask.actor, &operation, &ask.key, ""),
        lease_until: record.lease_until.as_millis(),
        deadline: record.deadline.as_millis(),
        heartbeat_every: seconds(ask.policy.lease / 3),
        server_time: store.now().as_millis(),
    };
    Ok(answer(StatusCode::CREATED, &claimed))
}

fn replayed(outcome: Outcome) -> Response {
    let Outcome { answer: stored, receipt, .. } = outcome;
    let replayed = Replayed {
        state: if (200..400).contains(&stored.status.as_u16()) { Ended::Completed } else { Ended::Failed },
        attempt: receipt.attempt,
        effect: receipt.effect_unknown.then_some(Unknown::Unknown),
        result_id: stored.result_id,
        answer: StoredAnswer::of(stored.status, &stored.headers, &stored.body),
    };
    answer(StatusCode::OK, &replayed)
}

impl StoredAnswer {
    fn of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let result = Json::of(body);
        let body_base64 = (result.is_none() && !body.is_empty()).then(|| base64(body));
        Self { status: status.as_u16(), headers: headers.collect(), result, body_base64 }
    }
}

fn note(asked: &Asked, ask: &Ask, outcome: &Result<Response, Problem>, waited: bool, duration: Duration) {
    let (status, code) = match outcome {
        Ok(response) => (response.status(), None),
        Err(problem) => (problem.status(), Some(problem.code)),
    };
    let decision = match outcome {
        Err(_) => Decision::Refused,
        Ok(_) if status == StatusCode::CREATED => Decision::Claimed,
        Ok(_) if waited => Decision::Waited,
        Ok(_) => Decision::Replayed,
    };
    let store = asked.store();
    observe::claim(&observe::Claim {
        label: &observe::label(true, &ask.policy.operation),
        request_id: ask.request_id.as_deref(),
        operation: &ask.operation,
        decision,
        code,
        key_hash: &store.log_hash("key", ask.key.expose()),
        actor_hash: &store.log_hash("actor", ask.actor.stored()),
        who: asked.grant().map(|grant| &*grant.name),
        status: status.as_u16(),
        duration,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(policy: &Policy, lease: Option<u64>, timeout: Option<u64>) -> Result<Policy, Problem> {
        let time = |seconds| Time(Duration::from_secs(seconds));
        own_times(policy, lease.map(time), timeout.map(time))
    }

    #[test]
    fn a_longer_timeout_leaves_as_much_time_after_it() {
        let policy = Policy::new("a");
        let own = times(&policy, Some(120), Some(3600)).unwrap();
        assert_eq!((own.lease, own.timeout), (Duration::from_secs(120), Duration::from_secs(3600)));
        assert_eq!(own.probe_after(), Duration::from_secs(3630));
        let fixed = policy.clone().probe_after_uncertain(Duration::from_secs(70));
        assert_eq!(times(&fixed, None, Some(600)).unwrap().probe_after(), Duration::from_secs(610));
        assert_eq!(times(&fixed, None, Some(10)).unwrap().probe_after(), Duration::from_secs(70), "never less");
    }

    #[test]
    fn times_that_cannot_hold_are_refused() {
        let policy = Policy::new("a");
        for (lease, timeout, member) in
            [(Some(29), None, "lease"), (None, Some(0), "timeout"), (None, Some(90_000), "timeout")]
        {
            let problem = times(&policy, lease, timeout).unwrap_err();
            assert_eq!((problem.code, &problem.members["member"]), (Code::RequestInvalid, &member.into()), "{problem}");
        }
    }
}
