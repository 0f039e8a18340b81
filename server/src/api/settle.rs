//! `POST /v1/records/{id}/settle`: somebody found out how an uncertain command ended.

use axum::response::Response;
use http::StatusCode;
use samekey_core::Timestamp;
use samekey_core::claim::transition::Settlement;
use samekey_core::claim::{Event, Record, State, Terminal};
use samekey_core::problem::Code;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::asked::{Asked, answer, invalid, request_invalid};
use super::ends::EndRequest;
use super::held::forgotten;
use super::json::Json;
use super::openapi::{Book, Doc};
use super::records::detail;
use super::view::RecordDetail;
use crate::admin::Scope;
use crate::claim::MAX_WHY_CHARS;
use crate::problem::Problem;
use crate::store::{Applied, Note, RecordId, Store};

/// The longest name of who settles, in characters.
const MAX_WHO_CHARS: usize = 100;

/// How an uncertain record ended, and who found out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    /// As it was looked at.
    pub(crate) revision: u64,
    /// When it was looked at: `server_time` of that look. Needed to release it, and wherever open effects are closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) looked_at: Option<i64>,
    pub(crate) outcome: OutcomeWord,
    /// Of 2xx or 3xx where it completed, 4xx or 5xx where it failed.
    #[schemars(range(min = 200, max = 599))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The body that other deliveries get, as JSON. Without body and headers none is stored, and they hear that it is done.
    #[serde(default, deserialize_with = "Json::present", skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Json>,
    /// The same, as bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body_base64: Option<String>,
    /// Name and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) headers: Vec<(String, String)>,
    /// What was made.
    #[schemars(length(min = 1, max = 255))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result_id: Option<String>,
    /// Although something may still be under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) force: bool,
    /// Who found out.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) who: String,
    /// What was found, and where.
    #[schemars(length(min = 1, max = 500))]
    pub(crate) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutcomeWord {
    /// It happened.
    Completed,
    /// It failed for good.
    Failed,
    /// It did not happen and is not under way: the key may run again.
    Released,
}

pub(super) fn add(book: &mut Book<'_>) {
    book.add(
        Doc::post("/v1/records/{record_id}/settle", Scope::Settle, "settle_record")
            .says(
                "An uncertain outcome is known",
                "Takes no effect if anything happened to the record since it was looked at.",
            )
            .takes::<SettleRequest>()
            .gives::<RecordDetail>(200, "The record as it is now.")
            .refuses(&[
                Code::RequestInvalid,
                Code::BodyInvalid,
                Code::ClaimNotFound,
                Code::BodyTimeout,
                Code::RecordChanged,
                Code::OutcomeUncertain,
                Code::PayloadTooLarge,
                Code::Overloaded,
                Code::StoreUnavailable,
            ]),
        post,
    );
}

async fn post(mut asked: Asked) -> Result<Response, Problem> {
    let at_most = asked.answer_bytes();
    let request: SettleRequest = asked.json(at_most).await?;
    let id = RecordId(asked.param(0).parse().map_err(|_| forgotten())?);
    // The token is known, the name is what somebody says.
    let by = asked.grant().map(|grant| format!(" (token {})", grant.name)).unwrap_or_default();
    settle(asked.store(), id, request, &by).await?;
    Ok(answer(StatusCode::OK, &detail(asked.store(), id).await?))
}

/// Settles a record. `by` is what is known of who does, beside the name that they say.
pub(crate) async fn settle(store: &Store, id: RecordId, request: SettleRequest, by: &str) -> Result<(), Problem> {
    for (member, text, most) in [("who", &request.who, MAX_WHO_CHARS), ("why", &request.why, MAX_WHY_CHARS)] {
        if text.trim().is_empty() || text.chars().count() > most {
            return Err(invalid(member, format!("it has 1 to {most} characters; the record keeps it")));
        }
    }
    let Some(case) = store.case(id).await? else { return Err(forgotten()) };
    let policy = store.contract_of(&case.found.operation);
    let note = Note { who: Some(format!("{}{by}", request.who)), why: Some(request.why.clone()) };
    let now = store.now();
    // Nobody looked later than now; who does not say when looked before anything was over.
    let looked_at = request.looked_at.map_or(Timestamp::from_millis(i64::MIN), Timestamp::from_millis).min(now);
    let SettleRequest { revision, force, outcome, .. } = request;
    let says_when = request.looked_at.is_some();
    let (settlement, response) = match outcome {
        OutcomeWord::Released => {
            if request.status.is_some() || request.result_id.is_some() || request.end().has_body() {
                return Err(request_invalid("what is released has no answer; leave status, result and the like out"));
            }
            (Settlement::Released, None)
        }
        OutcomeWord::Failed if request.status.is_none() => {
            return Err(invalid("status", "say how it failed, from 400 to 599"));
        }
        OutcomeWord::Completed | OutcomeWord::Failed => {
            let end = request.end();
            let said = end.answer(200, outcome == OutcomeWord::Completed)?;
            let (terminal, stored) = said.terminal(&policy);
            // Nobody knows what the answer was: that it is done is all that others hear.
            let has_response = terminal.has_response && end.has_body();
            (Settlement::Ended(Terminal { has_response, ..terminal }), Some(stored))
        }
    };
    let event = Event::Operator { revision, looked_at, force, settlement };
    match store.apply_noted(id, policy, event, response, note).await? {
        Applied { refused: None, record: Some(_) } => Ok(()),
        Applied { record: None, .. } => Err(forgotten()),
        Applied { record: Some(record), .. } => Err(not_settled(&record, revision, says_when, now)),
    }
}

impl SettleRequest {
    fn end(&self) -> EndRequest {
        EndRequest {
            status: self.status,
            result: self.result.clone(),
            body_base64: self.body_base64.clone(),
            headers: self.headers.clone(),
            result_id: self.result_id.clone(),
        }
    }
}

fn not_settled(record: &Record, revision: u64, says_when: bool, now: Timestamp) -> Problem {
    let state = record.receipt().word.as_str();
    let changed =
        |why: String| Problem::new(Code::RecordChanged, why).member("state", state).member("revision", record.revision);
    if record.state != State::Uncertain {
        return changed(format!("The record is {state}: only what is uncertain is settled. Nothing was written."));
    }
    if record.revision != revision {
        let has = record.revision;
        return changed(format!("It has revision {has} now, not {revision}: look at it again, then settle it."));
    }
    let wait = record.settle_after.map(|moment| moment.since(now)).unwrap_or_default();
    if !says_when {
        return invalid(
            "looked_at",
            "say when you looked, by server_time of that look: what was seen earlier proves nothing",
        );
    }
    let why = if wait.is_zero() {
        "You looked while something may still have been under way. That is over: look again now, also at the external \
         system, then settle it."
    } else {
        "Something may still be under way, and come after whoever looked. Look again when that is over, or force it on \
         your own risk."
    };
    let problem = Problem::new(Code::OutcomeUncertain, why).receipt(record.receipt());
    if wait.is_zero() { problem } else { problem.retry_after(wait) }
}
