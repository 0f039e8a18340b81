//! Calls of external systems under a claim, through the journal: made once, or nobody knows.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use samekey_core::claim::State;
use samekey_core::claim::effects::{Call, CallEnd};
use samekey_core::problem::Code;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::asked::{Asked, answer, invalid, request_invalid};
use super::ends::ABOUT_A_CLAIM;
use super::held::{Held, stale};
use super::json::Json;
use super::openapi::{Book, Doc};
use crate::admin::Scope;
use crate::claim::{Asked as AskedAt, MAX_NAME_BYTES, MAX_RESULT_BYTES, input_of};
use crate::problem::Problem;
use crate::store::{EffectEnd, EffectNoted, EffectStart, EffectTold};

/// What stands around a result or an input in a call.
const AROUND_BYTES: usize = 16 << 10;
/// How often a start is proved again of which one heard so late that the claim may have been lost.
const MAX_PROOFS: usize = 3;

/// The holder is about to call an external system.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartRequest {
    /// What it is called with: one name stands for one input.
    #[serde(default, deserialize_with = "Json::present")]
    input: Option<Json>,
    /// Tells a repeated start from a second call; without it every start under one claim is the same call.
    #[schemars(length(min = 1, max = 255))]
    call: Option<String>,
}

/// How a call ended: one of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [
    { "required": ["result"] },
    { "required": ["not_applied"] },
    { "required": ["unknown"] },
]))]
struct FinishRequest {
    /// It was answered, perhaps by a refusal; whoever starts it again gets this.
    #[serde(default, deserialize_with = "Json::present")]
    result: Option<Json>,
    /// The external system did nothing and will not: it may be called again.
    #[serde(default)]
    not_applied: bool,
    /// Nobody knows.
    #[serde(default)]
    unknown: bool,
}

/// How the call stands.
#[derive(Debug, Serialize, JsonSchema)]
struct EffectAnswer {
    state: EffectState,
    /// For the external system: the same on every attempt.
    provider_key: String,
    /// What it was answered. Not there where it was too large to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EffectState {
    /// Make the call, with `provider_key`, and say how it ended.
    Started,
    /// It was made: do not make it again.
    Finished,
    /// Nothing came of it: start it again to call.
    NotApplied,
    /// An earlier call may have been applied: do not make it again.
    Unknown,
}

pub(super) fn add(book: &mut Book<'_>) {
    book.add(
        Doc::post("/v1/claims/{claim_id}/effects/{name}", Scope::Claim, "start_effect")
            .says(
                "A call is about to be made",
                "Proves the claim and notes the call before it is made. Repeated under the same claim it is the same call.",
            )
            .takes::<StartRequest>()
            .gives::<EffectAnswer>(200, "Whether to make the call.")
            .refuses(ABOUT_A_CLAIM),
        start,
    );
    book.add(
        Doc::post("/v1/claims/{claim_id}/effects/{name}/finish", Scope::Claim, "finish_effect")
            .says("How a call ended", "Repeated with the same end it answers the same.")
            .takes::<FinishRequest>()
            .gives::<EffectAnswer>(200, "It stands in the journal.")
            .refuses(ABOUT_A_CLAIM),
        finish,
    );
}

/// The name of an effect, from the path.
fn name(asked: &Asked) -> Result<String, Problem> {
    let name = asked.param(1);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(invalid(
            "name",
            format!("an effect's name has 1 to {MAX_NAME_BYTES} bytes and no control characters"),
        ));
    }
    Ok(name.to_owned())
}

async fn start(mut asked: Asked) -> Result<Response, Problem> {
    let request: StartRequest = asked.json(MAX_RESULT_BYTES + AROUND_BYTES).await?;
    let held = Held::of(&asked).await?;
    let name = name(&asked)?;
    let provider_key = held.provider_key(&name);
    let input = request.input.as_ref().map(input_of).transpose().map_err(|error| invalid("input", error))?;
    let start = EffectStart {
        id: held.id.record,
        fence: held.id.fence,
        call: held.call(&name, request.call.as_deref().unwrap_or_default()),
        input,
        provider_key: provider_key.clone(),
        name,
    };
    let said = |state, result: Option<Bytes>| {
        let result = result.and_then(|bytes| Json::of(&bytes));
        Ok(answer(StatusCode::OK, &EffectAnswer { state, provider_key: provider_key.clone(), result }))
    };
    for _ in 0..MAX_PROOFS {
        let asked_at = AskedAt::now(&held.store);
        match held.store.start_effect(start.clone(), Arc::clone(&held.policy)).await? {
            EffectTold::Go if asked_at.elapsed() > held.policy.lease / 3 => {}
            EffectTold::Go => return said(EffectState::Started, None),
            EffectTold::Done(result) => return said(EffectState::Finished, Some(result)),
            EffectTold::Unknown => return said(EffectState::Unknown, None),
            EffectTold::OtherInput => {
                let why = format!("the effect {:?} of this command was called with another input before", start.name);
                return Err(invalid("input", format!("{why}; one name stands for one input")));
            }
            EffectTold::Stale(state) => return Err(held.stale(state).await),
        }
    }
    let why = "The store is so slow that the claim cannot be relied on. Nothing is to be called; ask again.";
    Err(Problem::new(Code::Overloaded, why).retry_after(std::time::Duration::from_secs(1)))
}

async fn finish(mut asked: Asked) -> Result<Response, Problem> {
    let request: FinishRequest = asked.json(2 * MAX_RESULT_BYTES + AROUND_BYTES).await?;
    let (end, state, result) = match request {
        FinishRequest { result: Some(result), not_applied: false, unknown: false } => {
            (CallEnd::Done, EffectState::Finished, Some(result))
        }
        FinishRequest { result: None, not_applied: true, unknown: false } => {
            (CallEnd::NotApplied, EffectState::NotApplied, None)
        }
        FinishRequest { result: None, not_applied: false, unknown: true } => {
            (CallEnd::Unknown, EffectState::Unknown, None)
        }
        _ => {
            let why = "say one of: result (null, if there is none), not_applied = true, unknown = true";
            return Err(request_invalid(why));
        }
    };
    let kept = result.as_ref().map(Json::bytes).unwrap_or_default();
    if kept.len() > MAX_RESULT_BYTES {
        let why = format!(
            "The journal keeps results of up to {MAX_RESULT_BYTES} bytes, this one has {}. Say a shorter one, such as an \
             id: the effect counts as unfinished until then.",
            kept.len()
        );
        return Err(Problem::new(Code::PayloadTooLarge, why).member("max_result", MAX_RESULT_BYTES));
    }
    let held = Held::of(&asked).await?;
    let name = name(&asked)?;
    let provider_key = held.provider_key(&name);
    let said = EffectEnd { id: held.id.record, fence: held.id.fence, name, end, result: kept };
    match held.store.end_effect(said).await? {
        EffectNoted::Kept => Ok(answer(StatusCode::OK, &EffectAnswer { state, provider_key, result })),
        EffectNoted::NotStarted => {
            Err(Problem::new(Code::ClaimNotFound, "No effect of this name was started under this command."))
        }
        EffectNoted::Stale(state) => {
            state.into_iter().for_each(|state| held.tell_stale(state));
            Err(held.stale(state).await)
        }
    }
}

impl Held {
    fn provider_key(&self, effect: &str) -> String {
        let case = &self.case;
        self.store.provider_key(&case.actor, &case.found.operation, &case.key, effect)
    }

    /// The same claim starts the same call, unless it says otherwise.
    fn call(&self, effect: &str, call: &str) -> Call {
        let attempt = self.id.fence.attempt.to_be_bytes();
        let parts = [self.id.fence.holder.as_bytes(), &attempt[..], effect.as_bytes(), call.as_bytes()];
        let hash = self.store.keyed_hash("call", &parts);
        Call(std::array::from_fn(|at| hash[at]))
    }

    /// The claim is not held any more, by what the record says now.
    async fn stale(&self, state: Option<State>) -> Problem {
        if state.is_none() {
            return stale(None);
        }
        match self.store.case(self.id.record).await {
            Ok(case) => stale(case.as_ref().map(|case| &case.found.record)),
            Err(error) => error.into(),
        }
    }
}
