//! Every record meets every event, under every policy that a row reads: what happens is what `table` says.

use std::collections::HashSet;

use super::table::{Facts, Hears, How, New, Payload, Seen, Unknown, What, given_up, old, row_of};
use super::transition::{Probed, Settlement};
use super::*;
use crate::policy::Timeless;
use std::vec::Vec;
use table::{TABLE, Verdict};

fn from_now(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + millis)
}

/// The record that the facts describe.
fn record_of(facts: &Facts) -> Option<Record> {
    let moment = facts.moment.map(from_now);
    let of_state = match facts.state? {
        State::InProgress => {
            Record { lease_until: from_now(facts.lease), deadline: from_now(facts.deadline), ..in_progress() }
        }
        State::Uncertain => Record { settle_after: moment, ..uncertain() },
        State::Released => Record { not_before: moment, ..released() },
        State::Completed => Record { expires_at: moment, has_response: facts.response, ..completed() },
        State::Failed => Record { expires_at: moment, has_response: facts.response, ..failed() },
        State::Expired => expired(facts.ended?),
    };
    let finished_at = of_state.finished_at.map(|_| from_now(-facts.age));
    Some(Record { took_over: facts.took_over, effects: facts.effects, finished_at, ..of_state })
}

/// All facts about records, apart from the operation's settings.
fn every_record(policy: &Facts) -> Vec<Facts> {
    let mut all = alloc::vec![Facts { state: None, ..*policy }];
    for effects in [NO_EFFECTS, OPEN, FINISHED, NOT_APPLIED] {
        let plain = Facts { effects, ..*policy };
        for took_over in [false, true] {
            for (lease, deadline) in [(10, 40), (1, 1), (0, 40), (-10, 40), (-50, 0), (-50, -10), (-10, 140)] {
                all.push(Facts { state: Some(State::InProgress), took_over, lease, deadline, ..plain });
            }
            for moment in [1, 0, -1, 1 - given_up(), -given_up()] {
                all.push(Facts { state: Some(State::Uncertain), took_over, moment: Some(moment), ..plain });
            }
        }
        for state in [State::Completed, State::Failed] {
            for moment in [1, 0, -1].map(Some) {
                all.push(Facts { state: Some(state), moment, response: true, ..plain });
                all.push(Facts { state: Some(state), moment, response: false, ..plain });
            }
        }
        for age in [50, old() - 1, old()] {
            for how in [Ended::Completed, Ended::Failed, Ended::Closed] {
                all.push(Facts { state: Some(State::Expired), ended: Some(how), age, ..plain });
            }
            for moment in [None, Some(1), Some(0), Some(-1)] {
                if effects != OPEN {
                    all.push(Facts { state: Some(State::Released), moment, age, ..plain });
                }
            }
        }
    }
    all
}

fn every_policy() -> Vec<(Facts, Policy)> {
    let mut all = Vec::new();
    for recovery in [Recovery::Manual, Recovery::Probe, Recovery::Rerun] {
        for journaled in [false, true] {
            for keeps_timeless in [false, true] {
                for may_judge in [false, true] {
                    let facts = Facts {
                        state: None,
                        ended: None,
                        took_over: false,
                        effects: NO_EFFECTS,
                        lease: -100,
                        deadline: -80,
                        moment: None,
                        response: false,
                        age: 50,
                        may_judge,
                        recovery,
                        journaled,
                        keeps_timeless,
                    };
                    let timeless = if keeps_timeless { Timeless::Keep } else { Timeless::Forget };
                    // What a 500 means was decided before it gets here: `transactional` changes no row.
                    let policy = policy().recovery(recovery).journaled(journaled).timeless(timeless);
                    all.push((facts, policy.transactional(keeps_timeless)));
                }
            }
        }
    }
    all
}

fn every_event(known: bool) -> Vec<What> {
    let mut all = alloc::vec![What::Tick, What::GiveUp, What::Horizon];
    let gates = [Gate::Open, Gate::ActorChanged, Gate::Quota, Gate::Overloaded];
    for gate in if known { &gates[2..] } else { &gates[..] } {
        for bits in 0..8 {
            let unknown =
                Unknown { gate: *gate, before_horizon: bits & 1 > 0, forgotten: bits & 2 > 0, has_time: bits & 4 > 0 };
            for payload in [Payload::Same, Payload::Other, Payload::OtherProfile] {
                for same_holder in [false, true] {
                    all.push(What::Deliver { payload, same_holder, unknown });
                }
            }
            all.push(What::Close { unknown });
        }
    }
    for mine in [true, false] {
        all.extend([What::Start { mine }, What::Renew { mine }]);
        let hows = [How::Succeeded, How::SucceededOtherwise, How::Refused, How::Broke, How::Released, How::Unknown];
        all.extend(hows.map(|how| What::Finish { mine, how }));
    }
    for at in [-1, 0, 1] {
        for this_revision in [true, false] {
            let seen = Seen { at, this_revision };
            for verdict in [Verdict::Done, Verdict::Refused, Verdict::Broke, Verdict::Nothing, Verdict::Unclear] {
                all.push(What::Probe { seen, verdict });
                if verdict != Verdict::Unclear {
                    all.extend([false, true].map(|force| What::Operator { seen, force, verdict }));
                }
            }
        }
    }
    for within_limit in [true, false] {
        for key_age in [None, Some(50), Some(old() - 1), Some(old())] {
            all.push(What::Sweep { key_age, within_limit });
        }
    }
    all
}

/// What happened, in the words of the code.
#[derive(Debug)]
struct Outcome {
    written: Option<Record>,
    effects_closed: bool,
    forgotten: bool,
    hears: Hears,
}

fn meet(record: Option<&Record>, what: &What, context: &Context<'_>) -> Option<Outcome> {
    match *what {
        What::Deliver { payload, same_holder, unknown } => {
            let fingerprint = match payload {
                Payload::Same => bound(),
                Payload::Other => another_payload(),
                Payload::OtherProfile => another_profile(),
            };
            let holder = if same_holder { HOLDER } else { ASKER };
            let (key_time, marks) = key_of(unknown);
            let delivery = Delivery { fingerprint, key_time, holder, gate: unknown.gate, marks };
            Some(heard(deliver(record, &delivery, context), record, unknown.gate))
        }
        What::Close { unknown } => {
            let (key_time, marks) = key_of(unknown);
            Some(heard(close(record, unknown.gate, key_time, marks, context), record, unknown.gate))
        }
        _ => record.map(|record| {
            let (written, effects_closed, forgotten, hears) =
                match transition(record, &event_of(what, record, context), context) {
                    Ok(Write::Nothing) => (None, false, false, Hears::Ok),
                    Ok(Write::Update(written)) => (Some(written), false, false, Hears::Ok),
                    Ok(Write::UpdateAndCloseEffects(written)) => (Some(written), true, false, Hears::Ok),
                    Ok(Write::Delete { mark }) => {
                        let What::Sweep { key_age, .. } = what else { panic!("{what:?} forgot") };
                        assert_eq!(mark, key_age.map(|age| from_now(-age)), "the mark is the key's time");
                        (None, false, true, Hears::Ok)
                    }
                    Err(Refused::Stale { state }) => (None, false, false, present(state, record, Hears::Stale)),
                    Err(Refused::Nothing { state }) => {
                        (None, false, false, present(state, record, Hears::PresentState))
                    }
                };
            Outcome { written, effects_closed, forgotten, hears }
        }),
    }
}

fn present(state: State, record: &Record, hears: Hears) -> Hears {
    assert_eq!(state, record.state);
    hears
}

fn key_of(unknown: Unknown) -> (Option<Timestamp>, Marks) {
    let key_time = from_now(-100);
    // As late as the clocks allow: with a time, at most `clock_skew` before it; without, within the retry budget.
    let late = if unknown.has_time { from_now(-103) } else { from_now(-499) };
    let horizon = Some(if unknown.before_horizon { late } else { late - TICK });
    let forgotten_before = if unknown.forgotten { key_time } else { key_time - TICK };
    (unknown.has_time.then_some(key_time), Marks { forgotten_before, horizon })
}

fn heard(verdict: decide::Verdict, record: Option<&Record>, gate: Gate) -> Outcome {
    let hears = match verdict.say {
        Say::Run(fence) if record.is_some_and(|record| record.fence == fence) => Hears::SameClaim,
        Say::Run(fence) => {
            assert_eq!(verdict.write.as_ref().map(|written| written.fence), Some(fence), "runs under what is written");
            Hears::Runs
        }
        Say::Wait => Hears::Waits,
        Say::Replay => Hears::Replay,
        Say::Refuse(Code::ActorChanged) if gate == Gate::ActorChanged => Hears::Gate,
        Say::Refuse(Code::QuotaExceeded) if gate == Gate::Quota => Hears::Gate,
        Say::Refuse(Code::Overloaded) if gate == Gate::Overloaded => Hears::Gate,
        Say::Refuse(code) => Hears::Code(code),
        Say::OtherProfile(_) => Hears::AskAgain,
        Say::Closed => Hears::Closed,
    };
    Outcome { written: verdict.write, effects_closed: false, forgotten: false, hears }
}

fn event_of(what: &What, record: &Record, context: &Context<'_>) -> Event {
    let fence = |mine| if mine { record.fence } else { NOT_MINE[0] };
    let revision = |seen: Seen| if seen.this_revision { record.revision } else { record.revision - 1 };
    let moment = |seen: Seen| Timestamp::from_millis(record.settle_after.unwrap_or(context.now).as_millis() + seen.at);
    match *what {
        What::Start { mine } => Event::Start(fence(mine)),
        What::Renew { mine } => Event::Renew(fence(mine)),
        What::Finish { mine, how } => Event::Finish(
            fence(mine),
            match how {
                How::Succeeded => Finish::Terminal(answer(201)),
                How::SucceededOtherwise => Finish::Terminal(Terminal { result_id: None, ..answer(201) }),
                How::Refused => Finish::Terminal(answer(404)),
                How::Broke => Finish::Terminal(answer(500)),
                How::Released => Finish::Released { not_before: Some(NOW + ms(5)) },
                How::Unknown => Finish::Uncertain(Reason::NoAnswer),
            },
        ),
        What::Probe { seen, verdict } => {
            let verdict = match verdict {
                Verdict::Done => Probed::Done(answer(201)),
                Verdict::Refused => Probed::Done(answer(404)),
                Verdict::Broke => Probed::Done(answer(500)),
                Verdict::Nothing => Probed::Absent,
                Verdict::Unclear => Probed::Unclear,
            };
            Event::Probe { revision: revision(seen), asked_at: moment(seen), verdict }
        }
        What::Operator { seen, force, verdict } => {
            let settlement = match verdict {
                Verdict::Done => Settlement::Ended(answer(201)),
                Verdict::Refused => Settlement::Ended(answer(404)),
                Verdict::Broke => Settlement::Ended(answer(500)),
                Verdict::Nothing | Verdict::Unclear => Settlement::Released,
            };
            Event::Operator { revision: revision(seen), looked_at: moment(seen), force, settlement }
        }
        What::GiveUp => Event::GiveUp,
        What::Sweep { key_age, within_limit } => {
            let key_time = key_age.map(|age| from_now(-age));
            let furthest = key_time.unwrap_or(NOW);
            Event::Sweep { key_time, forget_limit: if within_limit { furthest } else { furthest - TICK } }
        }
        What::Horizon => Event::Horizon,
        What::Tick | What::Deliver { .. } | What::Close { .. } => Event::Tick,
    }
}

/// What every written record obeys, whichever row wrote it.
fn sound(before: Option<&Record>, after: &Record) {
    let over = matches!(after.state, State::Completed | State::Failed | State::Expired);
    let released = after.state == State::Released;
    assert_eq!(after.revision, before.map_or(0, |record| record.revision) + 1);
    assert_eq!(after.settle_after.is_some(), after.state == State::Uncertain);
    assert!(after.not_before.is_none() || released);
    assert_eq!(after.ended.is_some(), after.state == State::Expired);
    assert_eq!(after.finished_at.is_some(), over || released);
    assert!(!(after.took_over && (over || released)));
    assert_eq!(after.fingerprint.is_none(), after.ended == Some(Ended::Closed));
    let nothing_happened = released || after.state == State::Failed && !after.effect_unknown();
    assert!(!nothing_happened || after.effects.open == 0);
    assert!(after.lease_until <= after.deadline);
    let Some(before) = before else { return };
    assert!(after.fence.attempt >= before.fence.attempt);
    assert_eq!(after.created_at, before.created_at);
    if matches!(before.state, State::Completed | State::Failed | State::Expired) {
        assert_eq!(after.state, State::Expired, "what has ended never runs again");
    }
}

fn is_new(new: New, what: &What, before: Option<&Record>, outcome: &Outcome) -> bool {
    let Some(after) = &outcome.written else {
        return !outcome.effects_closed
            && outcome.forgotten == (new == New::Forgotten)
            && matches!(new, New::Same | New::Forgotten);
    };
    let attempt = before.map_or(0, |record| record.fence.attempt);
    let took_over = before.is_some_and(|record| record.took_over);
    let fence = |attempt, holder| after.fence == Fence { attempt, holder };
    let kept = before.is_some_and(|record| record.fence == after.fence);
    let claim = |attempt: u32, flag| {
        after.state == State::InProgress
            && fence(attempt, after.fence.holder)
            && after.took_over == flag
            && (after.lease_until, after.deadline) == (NOW + LEASE, NOW + TIMEOUT)
    };
    let closes = matches!(new, New::ReleasedAndEffectsClosed | New::FailedAndEffectsClosed);
    let closed = match before.map_or(NO_EFFECTS, |record| record.effects) {
        OPEN => NOT_APPLIED,
        others => others,
    };
    let as_new = match new {
        New::Same | New::Forgotten | New::Judged => false,
        New::FirstClaim => claim(1, false),
        New::NextClaim { took_over } => claim(attempt + 1, took_over),
        New::LongerLease => {
            let deadline = after.deadline;
            kept && after.state == State::InProgress && after.lease_until == deadline.min(NOW + LEASE)
        }
        New::Ended(state) => kept && after.state == state && after.expires_at == Some(NOW + RETENTION),
        New::FailedAndEffectsClosed => kept && after.state == State::Failed,
        New::Released | New::ReleasedAndEffectsClosed => kept && after.state == State::Released,
        New::Uncertain(reason) => {
            let own = before.map_or(NOW, |record| record.deadline + ms(110 - 70));
            let over = (NOW + PROBE_AFTER).max(own);
            let settle_after = before.and_then(|record| record.settle_after).unwrap_or(over);
            kept && after.state == State::Uncertain
                && after.took_over == took_over
                && after.settle_after == Some(settle_after)
                && after.reason == Some(reason.unwrap_or(Reason::NoAnswer))
        }
        New::Restored | New::Lost => {
            let timed = matches!(what, What::Deliver { unknown, .. } if unknown.has_time);
            let settle_after = match new {
                New::Lost if timed => from_now(-103 + 70 + 110),
                New::Lost => NOW,
                _ => {
                    let known = before.map_or(NOW, |record| record.deadline);
                    (NOW + TIMEOUT + PROBE_AFTER).max(known + PROBE_AFTER)
                }
            };
            after.state == State::Uncertain
                && fence(attempt, NEW)
                && after.settle_after == Some(settle_after)
                && after.took_over == took_over
                && after.reason == Some(Reason::Restore)
        }
        New::Closed => after.ended == Some(Ended::Closed) && fence(attempt, NEW),
        New::Tombstone => kept && after.state == State::Expired && !after.has_response,
    };
    as_new && !outcome.forgotten && outcome.effects_closed == closes && (!closes || after.effects == closed)
}

#[test]
fn every_record_meets_every_event_as_the_table_says() {
    let mut met = HashSet::new();
    let events = [every_event(false), every_event(true)];
    for (facts, policy) in every_policy() {
        let context = Context { may_judge: facts.may_judge, ..context(&policy) };
        for facts in every_record(&facts) {
            let record = record_of(&facts);
            for what in &events[usize::from(record.is_some())] {
                let Some(outcome) = meet(record.as_ref(), what, &context) else { continue };
                let mut row = row_of(&facts, what);
                met.insert(row.name);
                let mut new = row.new;
                if new == New::Judged {
                    let tick = row_of(&facts, &What::Tick);
                    let state = if tick.new == New::Released { State::Released } else { State::Uncertain };
                    let moment = (state == State::Uncertain).then_some((facts.deadline + 40).max(110));
                    row = row_of(&Facts { state: Some(state), moment, ..facts }, what);
                    new = if row.new == New::Same { tick.new } else { row.new };
                }
                let as_said = outcome.hears == row.hears && is_new(new, what, record.as_ref(), &outcome);
                assert!(as_said, "{}: {facts:?}\n{what:?}\n{outcome:?}", row.name);
                if let Some(after) = &outcome.written {
                    sound(record.as_ref(), after);
                }
            }
        }
    }
    let missed: Vec<_> = TABLE.iter().map(|row| row.name).filter(|name| !met.contains(name)).collect();
    assert_eq!(missed, alloc::vec![""; 0], "rows that nothing met");
}
