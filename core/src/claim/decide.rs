//! What a delivery does and hears, and what closing a key does: rows D1–D15 and C1–C3.

use super::transition::{self, claimed, transition};
use super::{Context, Ended, Event, Fence, Holder, Marks, Reason, Record, State, Write, lapsed};
use crate::fingerprint::{Comparison, Fingerprint};
use crate::problem::Code;
use crate::select::ProfileId;
use crate::time::Timestamp;

/// One delivery of a command.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The fingerprint under the operation's present profile, or under the one that [`Say::OtherProfile`] named.
    pub fingerprint: Fingerprint,
    /// The time that the key carries, if the operation believes it.
    pub key_time: Option<Timestamp>,
    /// The holder that asks; a claim it holds already is given again (D7).
    pub holder: Holder,
    /// What stands before a new claim.
    pub gate: Gate,
    /// What the store remembers of the operation.
    pub marks: Marks,
}

/// What stands before a new claim (D3). Existing records are answered whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Open,
    /// The key holds a UUID and is known under other credentials.
    ActorChanged,
    /// The actor has too many keys in progress.
    Quota,
    /// The queue or the disk is full.
    Overloaded,
}

impl Gate {
    const fn code(self) -> Option<Code> {
        match self {
            Self::Open => None,
            Self::ActorChanged => Some(Code::ActorChanged),
            Self::Quota => Some(Code::QuotaExceeded),
            Self::Overloaded => Some(Code::Overloaded),
        }
    }
}

/// What a delivery hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// It runs under this fence.
    Run(Fence),
    /// Somebody else runs: it waits, then hears [`Code::OperationInProgress`].
    Wait,
    /// It gets the stored response.
    Replay,
    /// It is refused.
    Refuse(Code),
    /// The record is bound under another profile: ask again with the fingerprint under that one.
    OtherProfile(ProfileId),
    /// The key is closed (closing only).
    Closed,
}

/// What is written, and what the caller hears once that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The record to write: inserted where there was none.
    pub write: Option<Record>,
    /// What the caller hears.
    pub say: Say,
}

impl Verdict {
    const fn say(say: Say) -> Self {
        Self { write: None, say }
    }
    const fn refuse(code: Code) -> Self {
        Self::say(Say::Refuse(code))
    }
}

/// A delivery meets its record, or none.
pub fn deliver(record: Option<&Record>, delivery: &Delivery, context: &Context<'_>) -> Verdict {
    let Some(record) = record else { return meet_none(delivery, context) };
    if record.ended == Some(Ended::Closed) {
        return Verdict::refuse(Code::KeyClosed);
    }
    match record.fingerprint.map(|bound| bound.compare(&delivery.fingerprint)) {
        Some(Comparison::Same) => by_state(record, delivery, context),
        // A record without a fingerprint was closed, which D1 answered.
        Some(Comparison::Differs) | None => Verdict::refuse(Code::KeyPayloadMismatch),
        Some(Comparison::OtherProfile(profile)) => Verdict::say(Say::OtherProfile(profile)),
    }
}

fn meet_none(delivery: &Delivery, context: &Context<'_>) -> Verdict {
    let Delivery { fingerprint, key_time, holder, gate, marks } = *delivery;
    let first = first_claim(Some(fingerprint), holder, context);
    match refused_unknown(gate, key_time, marks, context) {
        None => Verdict { say: Say::Run(first.fence), write: Some(first) },
        // Absence proves nothing: the record makes the key visible to probe and operator.
        Some(code @ Code::OutcomeUncertain) => {
            let over = marks.horizon.map(|horizon| context.over(horizon));
            let uncertain = Record {
                state: State::Uncertain,
                reason: Some(Reason::Restore),
                settle_after: over.max(Some(context.now)),
                fence: Fence { attempt: 0, holder: context.new_holder },
                ..first
            };
            Verdict { write: Some(uncertain), say: Say::Refuse(code) }
        }
        Some(code) => Verdict::refuse(code),
    }
}

/// D3, D4, D5: why an unknown key is not new.
fn refused_unknown(gate: Gate, key_time: Option<Timestamp>, marks: Marks, context: &Context<'_>) -> Option<Code> {
    if let Some(code) = gate.code() {
        return Some(code);
    }
    if key_time.is_some_and(|time| time <= marks.forgotten_before) {
        return Some(Code::KeyExpired);
    }
    let before_horizon = |horizon: Timestamp| match key_time {
        Some(time) => time <= horizon + context.policy.clock_skew,
        None => context.now < horizon + context.policy.retry_budget,
    };
    marks.horizon.is_some_and(before_horizon).then_some(Code::OutcomeUncertain)
}

fn first_claim(fingerprint: Option<Fingerprint>, holder: Holder, context: &Context<'_>) -> Record {
    let now = context.now;
    let deadline = now + context.policy.timeout;
    Record {
        fingerprint,
        state: State::InProgress,
        fence: Fence { attempt: 1, holder },
        took_over: false,
        revision: 1,
        lease_until: (now + context.policy.lease).min(deadline),
        deadline,
        settle_after: None,
        not_before: None,
        reason: None,
        ended: None,
        status_code: None,
        result_id: None,
        has_response: false,
        created_at: now,
        finished_at: None,
        expires_at: None,
        effects: super::Effects::default(),
    }
}

fn by_state(record: &Record, delivery: &Delivery, context: &Context<'_>) -> Verdict {
    let now = context.now;
    match record.state {
        State::InProgress if lapsed(record, context) => {
            judged_first(record, context, |ticked| by_state(ticked, delivery, context))
        }
        State::InProgress if record.fence.holder == delivery.holder => Verdict::say(Say::Run(record.fence)),
        State::InProgress => Verdict::say(Say::Wait),
        State::Completed | State::Failed
            if record.has_response && record.expires_at.is_some_and(|expires| now < expires) =>
        {
            Verdict::say(Say::Replay)
        }
        State::Completed | State::Failed | State::Expired => Verdict::refuse(Code::ResponseNotStored),
        State::Uncertain if transition::may_rerun(record, context) => next_claim(record, true, delivery, context),
        State::Uncertain => Verdict::refuse(Code::OutcomeUncertain),
        State::Released if record.not_before.is_some_and(|moment| now < moment) => {
            Verdict::refuse(Code::OperationReleased)
        }
        State::Released => next_claim(record, false, delivery, context),
    }
}

/// D9: a lapsed claim meets the recoverer's tick, then whoever came is answered by the new state.
fn judged_first(record: &Record, context: &Context<'_>, by_new_state: impl FnOnce(&Record) -> Verdict) -> Verdict {
    let Ok(Write::Update(ticked)) = transition(record, &Event::Tick, context) else { return Verdict::say(Say::Wait) };
    let verdict = by_new_state(&ticked);
    // One write, so one step of the revision: the record that was read is the one that is replaced.
    let mut written = verdict.write.unwrap_or(ticked);
    written.revision = record.revision + 1;
    Verdict { write: Some(written), say: verdict.say }
}

fn next_claim(record: &Record, took_over: bool, delivery: &Delivery, context: &Context<'_>) -> Verdict {
    let record = claimed(record, took_over, delivery.holder, context);
    Verdict { say: Say::Run(record.fence), write: Some(record) }
}

/// What a delivery hears that does not run, whatever its turn: a waiter never becomes a runner.
pub fn without_running(state: State) -> Code {
    match state {
        State::InProgress => Code::OperationInProgress,
        State::Released => Code::OperationReleased,
        State::Uncertain => Code::OutcomeUncertain,
        State::Completed | State::Failed | State::Expired => Code::ResponseNotStored,
    }
}

/// A client closes a key, so that it never runs.
pub fn close(
    record: Option<&Record>,
    gate: Gate,
    key_time: Option<Timestamp>,
    marks: Marks,
    context: &Context<'_>,
) -> Verdict {
    let Some(record) = record else {
        return match refused_unknown(gate, key_time, marks, context) {
            Some(code) => Verdict::refuse(code),
            None => {
                let never_run = first_claim(None, context.new_holder, context);
                Verdict { write: Some(closed(&never_run, context, 0)), say: Say::Closed }
            }
        };
    };
    match record.state {
        State::InProgress if lapsed(record, context) => {
            judged_first(record, context, |ticked| close(Some(ticked), gate, key_time, marks, context))
        }
        State::Released if record.effects.none() => {
            let mut written = closed(record, context, record.fence.attempt);
            written.revision = record.revision + 1;
            Verdict { write: Some(written), say: Say::Closed }
        }
        State::Expired if record.ended == Some(Ended::Closed) => Verdict::say(Say::Closed),
        State::Completed | State::Failed
            if record.has_response && record.expires_at.is_some_and(|expires| context.now < expires) =>
        {
            Verdict::say(Say::Replay)
        }
        state => Verdict::refuse(without_running(state)),
    }
}

fn closed(record: &Record, context: &Context<'_>, attempt: u32) -> Record {
    Record {
        fingerprint: None,
        state: State::Expired,
        ended: Some(Ended::Closed),
        fence: Fence { attempt, holder: context.new_holder },
        not_before: None,
        reason: None,
        finished_at: Some(context.now),
        ..record.clone()
    }
}
