//! The guarded transitions of an existing record: every row but those of deliveries and closing.

use alloc::string::String;

use super::{Context, Ended, Fence, Holder, Reason, Record, State, lapsed};
use crate::policy::{Recovery, Timeless};
use crate::time::Timestamp;

/// What happens to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handler, or an effect, is about to start: the claim is proved in the store.
    Start(Fence),
    /// The holder's heartbeat.
    Renew(Fence),
    /// The holder says how the attempt ended.
    Finish(Fence, Finish),
    /// The recoverer looks at a claim.
    Tick,
    /// The external system answered a probe.
    Probe {
        /// The revision that was asked about.
        revision: u64,
        /// When it was asked.
        asked_at: Timestamp,
        /// What it said.
        verdict: Probed,
    },
    /// An operator settles the record.
    Operator {
        /// The revision that was looked at.
        revision: u64,
        /// When it was looked at.
        looked_at: Timestamp,
        /// Released before `settle_after` on the operator's own risk.
        force: bool,
        /// How it is settled.
        settlement: Settlement,
    },
    /// The recoverer looks whether the record was uncertain for too long.
    GiveUp,
    /// The sweeper looks at the record.
    Sweep {
        /// The time that its key carries, if the operation believes it.
        key_time: Option<Timestamp>,
        /// The furthest that `forgotten_before` may move now, as [`Marks::forget_limit`](super::Marks::forget_limit)
        /// says.
        forget_limit: Timestamp,
    },
    /// A backup was restored, or a replica that lags took over.
    Horizon,
}

/// How a holder says that its attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// With a terminal answer.
    Terminal(Terminal),
    /// Provably without any effect.
    Released {
        /// Not again before this moment.
        not_before: Option<Timestamp>,
    },
    /// Nobody knows how.
    Uncertain(Reason),
}

/// What of a terminal answer the record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// The answer's status: 2xx and 3xx complete, others fail.
    pub status: Option<u16>,
    /// Set where a failed command may have had its effect.
    pub reason: Option<Reason>,
    /// The id of what was made.
    pub result_id: Option<String>,
    /// The response is stored with headers and body.
    pub has_response: bool,
}

impl Terminal {
    fn state(&self) -> State {
        if self.status.is_some_and(|status| (200..400).contains(&status)) { State::Completed } else { State::Failed }
    }
}

/// What a probe says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// The effect happened; this is its answer.
    Done(Terminal),
    /// It did not happen and is not under way.
    Absent,
    /// Anything else.
    Unclear,
}

/// How an operator settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It happened, or it failed for good; this is its answer.
    Ended(Terminal),
    /// It did not happen.
    Released,
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Nothing; the event is right all the same.
    Nothing,
    /// This record in place of the one that was read.
    Update(Record),
    /// This record, and the open effects closed as not applied.
    UpdateAndCloseEffects(Record),
    /// The record is forgotten, and `forgotten_before` moves over this time in the same transaction.
    Delete {
        /// The key's time.
        mark: Option<Timestamp>,
    },
}

/// The event does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Start, renew or finish by somebody who does not hold the claim (any more): `claim_stale`.
    Stale {
        /// The present state.
        state: State,
    },
    /// The event changes nothing; who asked hears the present state.
    Nothing {
        /// The present state.
        state: State,
    },
}

/// Rows S1–N1: an event meets an existing record.
pub fn transition(record: &Record, event: &Event, context: &Context<'_>) -> Result<Write, Refused> {
    let now = context.now;
    let stale = Err(Refused::Stale { state: record.state });
    let nothing = Err(Refused::Nothing { state: record.state });
    match event {
        Event::Start(fence) | Event::Renew(fence) | Event::Finish(fence, _) if *fence != record.fence => stale,
        Event::Start(_) => match record.state {
            State::InProgress if now < record.lease_until && now < record.deadline => Ok(Write::Nothing),
            _ => stale,
        },
        Event::Renew(_) => match record.state {
            State::InProgress if now < record.deadline => {
                let lease_until = (now + context.policy.lease).min(record.deadline);
                Ok(Write::Update(Record { lease_until, ..next(record) }))
            }
            _ => stale,
        },
        Event::Finish(_, finish) => finished(record, finish, context).ok_or(Refused::Stale { state: record.state }),
        Event::Tick if record.state == State::InProgress && lapsed(record, context) => {
            let untouched = context.policy.journaled && record.effects.none() && !record.took_over;
            Ok(Write::Update(if untouched {
                released(record, None, context)
            } else {
                uncertain(record, Reason::Lapse, context)
            }))
        }
        Event::Probe { revision, asked_at, verdict } if record.state == State::Uncertain => {
            let counts = context.policy.recovery == Recovery::Probe
                && *revision == record.revision
                && record.settle_after.is_some_and(|moment| *asked_at >= moment);
            match verdict {
                Probed::Done(answer) if counts => Ok(settled(record, answer, context)),
                Probed::Absent if counts && record.effects.open == 0 => {
                    Ok(Write::Update(released(record, None, context)))
                }
                _ => nothing,
            }
        }
        Event::Operator { revision, looked_at, force, settlement } if record.state == State::Uncertain => {
            // Only who looked late saw that nothing will come of an open effect.
            let may_close = *force || record.settle_after.is_some_and(|moment| *looked_at >= moment);
            let write = match settlement {
                Settlement::Ended(answer) => settled(record, answer, context),
                Settlement::Released => effects_closed(released(record, None, context)),
            };
            match write {
                _ if *revision != record.revision => nothing,
                Write::UpdateAndCloseEffects(_) if !may_close => nothing,
                write => Ok(write),
            }
        }
        Event::GiveUp if record.state == State::Uncertain => {
            let due = record.settle_after.is_some_and(|moment| now >= moment + context.policy.give_up);
            let answer = Terminal { status: None, reason: Some(Reason::GaveUp), result_id: None, has_response: false };
            if due { Ok(settled(record, &answer, context)) } else { nothing }
        }
        Event::Sweep { key_time, forget_limit } => match record.state {
            State::Completed | State::Failed if record.expires_at.is_some_and(|expires| now >= expires) => {
                let ended = Some(if record.state == State::Completed { Ended::Completed } else { Ended::Failed });
                Ok(Write::Update(Record { state: State::Expired, ended, has_response: false, ..next(record) }))
            }
            State::Expired | State::Released if may_forget(record, *key_time, *forget_limit, context) => {
                Ok(Write::Delete { mark: *key_time })
            }
            _ => nothing,
        },
        Event::Horizon if matches!(record.state, State::InProgress | State::Released | State::Uncertain) => {
            let fence = Fence { holder: context.new_holder, ..record.fence };
            // The attempt that the backup knows, and whatever attempt was made since.
            let known = record.settle_after.max(Some(record.deadline + context.policy.probe_after()));
            let settle_after = known.max(Some(context.over(now)));
            Ok(Write::Update(Record { fence, settle_after, ..uncertain(record, Reason::Restore, context) }))
        }
        Event::Tick | Event::Probe { .. } | Event::Operator { .. } | Event::GiveUp | Event::Horizon => nothing,
    }
}

/// Rows F1–F6; `None` is F7.
fn finished(record: &Record, finish: &Finish, context: &Context<'_>) -> Option<Write> {
    let open = record.effects.open > 0;
    let write = match (record.state, finish) {
        (State::InProgress | State::Uncertain | State::Released, Finish::Terminal(answer)) => {
            // While an effect is open, nobody knows that the command failed.
            if open && answer.state() == State::Failed {
                uncertain(record, Reason::EarlierAttempt, context)
            } else {
                ended(record, answer, context)
            }
        }
        (State::InProgress | State::Uncertain, Finish::Released { not_before }) => {
            if open || record.took_over {
                uncertain(record, Reason::EarlierAttempt, context)
            } else {
                released(record, *not_before, context)
            }
        }
        (State::Released, Finish::Released { .. }) => return Some(Write::Nothing),
        (State::InProgress | State::Uncertain | State::Released, Finish::Uncertain(reason)) => {
            uncertain(record, *reason, context)
        }
        (State::Completed | State::Failed | State::Expired, Finish::Terminal(answer)) => {
            let class = match (record.state, record.ended) {
                (State::Completed, _) | (State::Expired, Some(Ended::Completed)) => State::Completed,
                (State::Failed, _) | (State::Expired, Some(Ended::Failed)) => State::Failed,
                _ => return None,
            };
            let same =
                class == answer.state() && record.status_code == answer.status && record.result_id == answer.result_id;
            return same.then_some(Write::Nothing);
        }
        (State::Completed | State::Failed | State::Expired, Finish::Released { .. } | Finish::Uncertain(_)) => {
            return None;
        }
    };
    Some(Write::Update(write))
}

/// Whether an uncertain record runs again by itself (D12).
pub(super) fn may_rerun(record: &Record, context: &Context<'_>) -> bool {
    context.policy.recovery == Recovery::Rerun
        && record.settle_after.is_some_and(|moment| context.now >= moment)
        && record.effects.open == 0
}

/// A row is deleted only if the same key would then be refused, or is one that the operation said may be new
/// again: `remember` after its end, and only when the key's own time lies `remember` back as well.
pub fn may_forget(
    record: &Record,
    key_time: Option<Timestamp>,
    forget_limit: Timestamp,
    context: &Context<'_>,
) -> bool {
    let old = |moment: Timestamp| context.now >= moment + context.policy.remember;
    record.finished_at.is_some_and(old)
        && match key_time {
            Some(time) => old(time) && time <= forget_limit,
            None => context.policy.timeless == Timeless::Forget,
        }
}

/// The record with the next revision: every write goes through here.
pub(super) fn next(record: &Record) -> Record {
    Record { revision: record.revision + 1, ..record.clone() }
}

/// The next claim on a record that is known (D12, D15).
pub(super) fn claimed(record: &Record, took_over: bool, holder: Holder, context: &Context<'_>) -> Record {
    let deadline = context.now + context.policy.timeout;
    Record {
        state: State::InProgress,
        fence: Fence { attempt: record.fence.attempt + 1, holder },
        took_over,
        lease_until: (context.now + context.policy.lease).min(deadline),
        deadline,
        settle_after: None,
        not_before: None,
        reason: None,
        finished_at: None,
        ..next(record)
    }
}

fn ended(record: &Record, answer: &Terminal, context: &Context<'_>) -> Record {
    let state = answer.state();
    Record {
        state,
        took_over: false,
        settle_after: None,
        not_before: None,
        reason: if state == State::Failed { answer.reason } else { None },
        status_code: answer.status,
        result_id: answer.result_id.clone(),
        has_response: answer.has_response,
        finished_at: Some(context.now),
        expires_at: Some(context.now + context.policy.retention),
        ..next(record)
    }
}

/// An end that was found out from outside. A failure says that nothing happened, so nothing stays open under it;
/// one that leaves the effect unknown leaves the open effects as they are.
fn settled(record: &Record, answer: &Terminal, context: &Context<'_>) -> Write {
    let written = ended(record, answer, context);
    if written.state == State::Failed && written.effects.open > 0 && !written.effect_unknown() {
        effects_closed(written)
    } else {
        Write::Update(written)
    }
}

fn effects_closed(written: Record) -> Write {
    Write::UpdateAndCloseEffects(Record { effects: written.effects.closed(), ..written })
}

fn released(record: &Record, not_before: Option<Timestamp>, context: &Context<'_>) -> Record {
    Record {
        state: State::Released,
        took_over: false,
        settle_after: None,
        not_before,
        reason: None,
        finished_at: Some(context.now),
        ..next(record)
    }
}

fn uncertain(record: &Record, reason: Reason, context: &Context<'_>) -> Record {
    let settle_after = match record.state {
        State::Uncertain => record.settle_after,
        _ => None,
    };
    Record {
        state: State::Uncertain,
        settle_after: settle_after.or(Some(context.over_for(record))),
        not_before: None,
        reason: Some(reason),
        finished_at: None,
        ..next(record)
    }
}
