//! A record as operators see it: how it stands, what happened to it, who may move it. Never payload, key or actor.

use std::time::Duration;

use samekey_core::claim::{Ended, Reason, Record, State};
use samekey_core::{Policy, Recovery, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::{By, Effect, Listed, Step, Store};

/// A record in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RecordView {
    pub(crate) id: i64,
    /// `in_progress`, `completed`, `failed`, `released`, `uncertain`, `expired`.
    pub(crate) state: String,
    pub(crate) operation: String,
    pub(crate) attempt: u32,
    /// Counts its writes; whoever settles it names the one that was looked at.
    pub(crate) revision: u64,
    /// Why it is as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Of what remains of it: `completed`, `failed`, `closed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<String>,
    /// `unknown`: it failed, and may have had its effect all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effect: Option<String>,
    /// Unix milliseconds, as all times here.
    pub(crate) created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<i64>,
    /// Its answer is given until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_until: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<i64>,
    /// Before then something may still be under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settle_after: Option<i64>,
    /// Not to run before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result_id: Option<String>,
    /// Headers and body of its answer are kept.
    pub(crate) response_stored: bool,
    /// What logs call its key.
    pub(crate) key_hash: String,
    /// What logs call its actor.
    pub(crate) actor_hash: String,
    /// The request that made the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    /// Calls of external systems that nobody said the end of.
    pub(crate) effects_open: u32,
    pub(crate) effects_finished: u32,
    /// Who moves it on: `holder`, `client`, `probe`, `rerun`, `manual`, `nobody`.
    pub(crate) next: String,
    /// When they do so at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_at: Option<i64>,
}

/// A record and what happened to it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RecordDetail {
    #[serde(flatten)]
    pub(crate) record: RecordView,
    pub(crate) timeline: Vec<StepView>,
    pub(crate) effects: Vec<EffectView>,
    /// When it was looked at: whoever settles it says this again, as `looked_at`.
    pub(crate) server_time: i64,
}

/// One step of a record.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StepView {
    pub(crate) at: i64,
    pub(crate) attempt: u32,
    pub(crate) state: String,
    /// `delivery`, `handler`, `lease`, `probe`, `operator`, `sweeper`, `restore`, `client`.
    pub(crate) by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) who: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
}

/// A call of an external system.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EffectView {
    pub(crate) name: String,
    /// What the external system got as its key: look for it there.
    pub(crate) provider_key: String,
    /// The attempt that called last.
    pub(crate) attempt: u32,
    pub(crate) started_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<i64>,
    /// `open`, `done`, `not_applied`, `unknown`.
    pub(crate) state: String,
}

impl RecordView {
    pub(crate) fn of(listed: &Listed, store: &Store) -> Self {
        let case = &listed.case;
        let record = &case.found.record;
        let policy = store.contract_of(&case.found.operation);
        let (next, next_at) = next(record, case.looks, &policy);
        let when = |state: State, moment: Timestamp| (record.state == state).then_some(moment.as_millis());
        Self {
            id: case.found.id.0,
            state: record.state.as_str().into(),
            operation: case.found.operation.clone(),
            attempt: record.fence.attempt,
            revision: record.revision,
            reason: record.reason.map(|reason| reason.as_str().into()),
            ended: record.ended.map(|ended| ended.as_str().into()),
            effect: record.receipt().effect_unknown.then(|| "unknown".into()),
            created_at: record.created_at.as_millis(),
            finished_at: record.finished_at.map(Timestamp::as_millis),
            expires_at: record.expires_at.map(Timestamp::as_millis),
            lease_until: when(State::InProgress, record.lease_until),
            deadline: when(State::InProgress, record.deadline),
            settle_after: record.settle_after.map(Timestamp::as_millis),
            not_before: record.not_before.map(Timestamp::as_millis),
            status_code: record.status_code,
            result_id: record.result_id.clone(),
            response_stored: record.has_response,
            key_hash: store.log_hash("key", case.key.expose()),
            actor_hash: store.log_hash("actor", case.actor.stored()),
            request_id: listed.request_id.clone(),
            effects_open: record.effects.open,
            effects_finished: record.effects.finished,
            next: next.into(),
            next_at: next_at.map(Timestamp::as_millis),
        }
    }
}

/// Who moves a record on, and when at the earliest.
fn next(record: &Record, looks: u32, policy: &Policy) -> (&'static str, Option<Timestamp>) {
    match (record.state, policy.recovery) {
        (State::InProgress, _) => ("holder", None),
        (State::Released, _) => ("client", record.not_before),
        (State::Uncertain, Recovery::Probe) if looks > 0 => ("probe", None),
        (State::Uncertain, Recovery::Probe) => ("probe", record.settle_after),
        (State::Uncertain, Recovery::Rerun) if record.effects.open == 0 => ("rerun", record.settle_after),
        (State::Uncertain, _) => ("manual", record.settle_after),
        (State::Completed | State::Failed | State::Expired, _) => ("nobody", None),
    }
}

impl RecordDetail {
    pub(crate) fn of(
        listed: &Listed,
        effects: Vec<Effect>,
        steps: &[Step],
        looked_at: Timestamp,
        store: &Store,
    ) -> Self {
        Self {
            record: RecordView::of(listed, store),
            timeline: timeline(listed, steps),
            effects: effects.into_iter().map(EffectView::of).collect(),
            server_time: looked_at.as_millis(),
        }
    }
}

impl EffectView {
    fn of(effect: Effect) -> Self {
        Self {
            state: effect.end.map_or("open", samekey_core::claim::effects::CallEnd::as_str).into(),
            name: effect.name,
            provider_key: effect.provider_key,
            attempt: effect.attempt,
            started_at: effect.started_at.as_millis(),
            finished_at: effect.finished_at.map(Timestamp::as_millis),
        }
    }
}

impl StepView {
    fn of(step: &Step) -> Self {
        Self {
            at: step.at.as_millis(),
            attempt: step.attempt,
            state: step.state.as_str().into(),
            by: step.by.as_str().into(),
            reason: step.reason.map(|reason| reason.as_str().into()),
            who: step.who.clone(),
            why: step.why.clone(),
            request_id: step.request_id.clone(),
        }
    }
}

/// The trail, with the first claim and the answer of a holder, which the record itself tells.
fn timeline(listed: &Listed, steps: &[Step]) -> Vec<StepView> {
    let record = &listed.case.found.record;
    let plain = |at: Timestamp, attempt, state: &str, by: By, reason: Option<Reason>, request_id: Option<String>| {
        let reason = reason.map(|reason| reason.as_str().to_owned());
        StepView {
            at: at.as_millis(),
            attempt,
            state: state.into(),
            by: by.as_str().into(),
            reason,
            who: None,
            why: None,
            request_id,
        }
    };
    let mut all: Vec<StepView> = Vec::with_capacity(steps.len() + 2);
    if steps.first().is_none_or(|step| step.revision > 1) {
        let of_first = steps.iter().find(|step| step.attempt == 1).map(|step| step.request_id.clone());
        let request_id = of_first.unwrap_or_else(|| listed.request_id.clone());
        all.push(plain(record.created_at, 1, State::InProgress.as_str(), By::Delivery, None, request_id));
    }
    all.extend(steps.iter().map(StepView::of));
    let ended = match (record.state, record.ended) {
        (State::Completed, _) | (_, Some(Ended::Completed)) => Some(State::Completed),
        (State::Failed, _) | (_, Some(Ended::Failed)) => Some(State::Failed),
        _ => None,
    };
    if let (Some(state), Some(at)) = (ended, record.finished_at)
        && steps.last().is_none_or(|step| step.state != state)
    {
        let (attempt, request_id) = (record.fence.attempt, listed.request_id.clone());
        all.push(plain(at, attempt, state.as_str(), By::Handler, record.reason, request_id));
    }
    all
}

/// How long ago something was, as people say it.
pub(crate) fn age(since: i64, now: i64) -> String {
    let seconds = Duration::from_millis(u64::try_from(now - since).unwrap_or(0)).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let said = [0, 59, 60, 192, 3600, 86_399, 86_400, 1_000_000].map(|seconds: i64| age(0, seconds * 1000 + 999));
        assert_eq!(said, ["0s", "59s", "1m00s", "3m12s", "1h00m", "23h59m", "1d00h", "11d13h"]);
        assert_eq!(age(1000, 0), "0s", "a clock that was set back");
    }
}
