//! One key and the world around it: deliveries, handlers whose effect may happen late, crashes, probes and operators
//! who tell the truth, a backup. Every promise that a step could break is checked where the step is taken.
//!
//! What the design assumes is an assumption here too: an effect of a handler happens before `settle_after` of its
//! claim, operators look after it, clients' clocks run ahead by no more than `clock_skew`. `search` drops each of them
//! in turn and sees the promise break. A restore is no such assumption: handlers live through it and go on for as long
//! as the server lets a claim of that moment, and their answers arrive long after it.

mod handler;
mod outside;
mod promises;
mod signature;

use super::*;
use std::vec::Vec;

/// Moments are a handful of milliseconds, so that the whole life of a key is a few dozen steps of the clock.
pub(super) fn quick_policy() -> Policy {
    let mut policy = Policy::new("orders.create")
        .lease(ms(1))
        .timeout(ms(2))
        .probe_after_uncertain(ms(2))
        .retention(ms(1))
        .remember(ms(2))
        .retry_budget(ms(2));
    policy.give_up = ms(2);
    policy.clock_skew = ms(1);
    policy
}

/// What the search leaves out or lets go wrong.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub policy: Policy,
    /// How many deliveries may run.
    pub runs: usize,
    /// How far the clock that minted the key ran ahead; nothing: the key carries no time.
    pub key_ahead: Option<Duration>,
    /// A backup may be taken and restored, once.
    pub backup: bool,
    /// An assumption that does not hold.
    pub broken: Option<Assumption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assumption {
    /// An effect happens before `settle_after`.
    EffectsEnd,
    /// An operator releases only on what was seen after `settle_after`.
    OperatorsWait,
    /// No clock of a client runs ahead by more than `clock_skew`: no key is without a time first and has one later.
    ClocksAgree,
    /// Nobody sends a key without a time after its retry budget.
    RetriesEnd,
    /// Who probes or settles tells the truth.
    Truth,
}

/// How a handler answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Success,
    Refusal,
    ServerError,
    Released { wait: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has the claim and did nothing.
    Claimed,
    Running,
    /// Its process died, or its connection: what it began may still come true.
    Orphan,
    /// It is over; its answer may reach the store at any moment, any number of times, or never.
    Answered(Says),
    Gone,
}

/// A journaled effect of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    NotStarted,
    Open,
    Ended,
}

#[derive(Clone, Debug)]
struct Handler {
    fence: Fence,
    phase: Phase,
    /// Its effect happened.
    acted: bool,
    journal: Journal,
    /// Its task is dropped, and its upstream silent, from this moment on.
    until: Option<Timestamp>,
}

/// What a probe or an operator saw, and when.
#[derive(Clone, Copy, Debug)]
struct Look {
    revision: u64,
    at: Timestamp,
    happened: bool,
}

/// The store as it was, and what people knew then.
#[derive(Clone, Debug)]
struct Backup {
    record: Option<Record>,
    marks: Marks,
    settled: Option<Ended>,
    forgotten: bool,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub now: Timestamp,
    pub record: Option<Record>,
    marks: Marks,
    /// The time that the key carries.
    minted: Option<Timestamp>,
    handlers: Vec<Handler>,
    effects: u32,
    look: Option<Look>,
    backup: Option<Backup>,
    restored: bool,
    /// How the key ended, as some caller has heard.
    settled: Option<Ended>,
    forgotten: bool,
    /// Before the first byte of the first delivery that got anywhere, the last answer said so late.
    first_sent: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Clock,
    Deliver {
        may_judge: bool,
    },
    DeliverOtherPayload,
    Close {
        may_judge: bool,
    },
    Start(usize),
    Renew(usize),
    BeginEffect(usize),
    Effect(usize),
    EndEffect(usize),
    Answer(usize, Says),
    Arrive(usize),
    NoAnswer(usize),
    Crash,
    Tick,
    Look,
    Probe,
    Operator {
        ends: bool,
    },
    GiveUp,
    Sweep,
    /// Another key of the operation is forgotten.
    SweepAnother,
    Backup,
    Restore,
}

impl World {
    pub(super) fn new(rules: &Rules) -> Self {
        let marks = Marks { forgotten_before: NOW - ms(1), horizon: None };
        Self {
            now: NOW,
            record: None,
            marks,
            minted: rules.key_ahead.map(|ahead| NOW + ahead),
            handlers: Vec::new(),
            effects: 0,
            look: None,
            backup: None,
            restored: false,
            settled: None,
            forgotten: false,
            first_sent: None,
        }
    }

    /// Every step that somebody may try; those that change nothing are harmless.
    pub(super) fn steps(rules: &Rules) -> Vec<Step> {
        let mut all = alloc::vec![Step::Clock, Step::DeliverOtherPayload, Step::Crash, Step::Tick, Step::Look];
        all.extend([Step::Probe, Step::GiveUp, Step::Sweep, Step::SweepAnother]);
        for flag in [true, false] {
            all.extend([Step::Deliver { may_judge: flag }, Step::Close { may_judge: flag }]);
            all.push(Step::Operator { ends: flag });
        }
        for of in 0..rules.runs {
            all.extend([Step::Start(of), Step::Renew(of), Step::Effect(of), Step::Arrive(of), Step::NoAnswer(of)]);
            if rules.policy.journaled {
                all.extend([Step::BeginEffect(of), Step::EndEffect(of)]);
            }
            let released = [false, true].map(|wait| Says::Released { wait });
            let says = [Says::Success, Says::Refusal, Says::ServerError].into_iter().chain(released);
            all.extend(says.map(|says| Step::Answer(of, says)));
        }
        if rules.backup {
            all.extend([Step::Backup, Step::Restore]);
        }
        all
    }

    /// Takes a step in place. `false`: it is not enabled. An error: a promise is broken.
    pub(super) fn take(&mut self, step: Step, rules: &Rules) -> Result<bool, &'static str> {
        let before = self.record.clone();
        let enabled = self.step(step, rules)?;
        if enabled {
            self.check(before.as_ref(), step, rules)?;
        }
        Ok(enabled)
    }

    fn context<'a>(&self, rules: &'a Rules, may_judge: bool) -> Context<'a> {
        // A nonce that no claim had before: the revision of a record that was restored may come twice.
        let nonce = self.handlers.len() as u8 + if self.restored { 200 } else { 100 };
        Context { now: self.now, policy: &rules.policy, may_judge, new_holder: Holder::from_bytes([nonce; 16]) }
    }

    /// The time of the key, if it is believed.
    fn key_time(&self, rules: &Rules) -> Option<Timestamp> {
        self.minted.filter(|time| *time <= self.now + rules.policy.clock_skew)
    }

    fn step(&mut self, step: Step, rules: &Rules) -> Result<bool, &'static str> {
        match step {
            Step::Clock => self.now = self.now + ms(1),
            Step::Deliver { may_judge } => return self.deliver(bound(), may_judge, rules),
            Step::DeliverOtherPayload => return self.deliver(another_payload(), true, rules),
            Step::Close { may_judge } => return self.close(may_judge, rules),
            Step::Start(of) => {
                let Some(fence) = self.fence(of, Phase::Claimed) else { return Ok(false) };
                let started = self.event(&Event::Start(fence), rules);
                self.handlers[of].phase = if started { Phase::Running } else { Phase::Gone };
            }
            Step::Renew(of) => {
                let fence = self.fence(of, Phase::Claimed).or_else(|| self.fence(of, Phase::Running));
                return Ok(fence.is_some_and(|fence| self.event(&Event::Renew(fence), rules)));
            }
            Step::BeginEffect(of) => return Ok(self.begin_effect(of, rules)),
            Step::Effect(of) => {
                if !self.may_act(of, rules) || self.handlers[of].acted {
                    return Ok(false);
                }
                self.handlers[of].acted = true;
                self.effects += 1;
            }
            Step::EndEffect(of) => return Ok(self.end_effect(of)),
            Step::Answer(of, says) => return Ok(self.answer(of, says, rules)),
            Step::Arrive(of) => return Ok(self.arrive(of, rules)),
            Step::NoAnswer(of) => {
                let Some(fence) = self.fence(of, Phase::Running) else { return Ok(false) };
                return Ok(self.event(&Event::Finish(fence, Finish::Uncertain(Reason::NoAnswer)), rules));
            }
            Step::Crash => {
                for handler in &mut self.handlers {
                    handler.phase = match handler.phase {
                        Phase::Claimed => Phase::Gone,
                        Phase::Running => Phase::Orphan,
                        other => other,
                    };
                }
            }
            Step::Tick => return Ok(self.event(&Event::Tick, rules)),
            Step::Look => {
                let Some(record) = self.record.as_ref().filter(|record| record.state == State::Uncertain) else {
                    return Ok(false);
                };
                self.look = Some(Look { revision: record.revision, at: self.now, happened: self.effects > 0 });
            }
            Step::Probe => return Ok(self.probe(rules)),
            Step::Operator { ends } => return Ok(self.operator(ends, rules)),
            Step::GiveUp => return Ok(self.event(&Event::GiveUp, rules)),
            Step::Sweep => {
                let key_time = self.key_time(rules);
                let forget_limit = self.marks.forget_limit(self.now, &self.context(rules, true));
                return Ok(self.event(&Event::Sweep { key_time, forget_limit }, rules));
            }
            Step::SweepAnother => {
                let forget_limit = self.marks.forget_limit(self.now, &self.context(rules, true));
                let mark = forget_limit.min(self.now - rules.policy.remember);
                if mark <= self.marks.forgotten_before {
                    return Ok(false);
                }
                self.marks.forgotten_before = mark;
            }
            Step::Backup => {
                if self.backup.is_some() || self.restored {
                    return Ok(false);
                }
                let World { record, marks, settled, forgotten, .. } = self.clone();
                self.backup = Some(Backup { record, marks, settled, forgotten });
            }
            Step::Restore => return Ok(self.restore(rules)),
        }
        Ok(true)
    }

    fn deliver(&mut self, payload: Fingerprint, may_judge: bool, rules: &Rules) -> Result<bool, &'static str> {
        let known = self.record.is_some();
        // A first delivery with another payload is like any other first one.
        if self.silent(rules) || (!known && payload != bound()) {
            return Ok(false);
        }
        let number = self.handlers.len() as u8;
        let delivery = Delivery {
            fingerprint: payload,
            key_time: self.key_time(rules),
            holder: Holder::from_bytes([number; 16]),
            gate: Gate::Open,
            marks: self.marks,
        };
        let verdict = deliver(self.record.as_ref(), &delivery, &self.context(rules, may_judge));
        let first_sent = *self.first_sent.get_or_insert(self.now);
        match verdict.say {
            Say::Run(_) if self.handlers.len() == rules.runs => return Ok(false),
            Say::Run(fence) => {
                self.promise_to_run(payload, rules)?;
                let fresh =
                    Handler { fence, phase: Phase::Claimed, acted: false, journal: Journal::NotStarted, until: None };
                self.handlers.push(fresh);
            }
            Say::Replay | Say::Refuse(Code::ResponseNotStored) => self.hear_the_end()?,
            Say::Refuse(Code::KeyClosed) if payload == bound() => self.hear_the_end()?,
            // The client takes it for a proof that nothing ran, and goes on with another key.
            Say::Refuse(Code::KeyExpired) if self.now < first_sent + rules.policy.remember => {
                self.promise_that_nothing_ran(rules)?;
            }
            _ => {}
        }
        let changes = verdict.write.is_some() || verdict.say == Say::Replay;
        self.write(verdict.write);
        Ok(changes || self.settled.is_some())
    }

    fn close(&mut self, may_judge: bool, rules: &Rules) -> Result<bool, &'static str> {
        if self.silent(rules) {
            return Ok(false);
        }
        let verdict =
            close(self.record.as_ref(), Gate::Open, self.key_time(rules), self.marks, &self.context(rules, may_judge));
        let Some(written) = verdict.write else { return Ok(false) };
        self.write(Some(written));
        if verdict.say == Say::Closed {
            if self.effects > 0 || (0..self.handlers.len()).any(|of| self.may_act(of, rules)) {
                return Err("closed, yet it happens");
            }
            self.hear_the_end()?;
        }
        Ok(true)
    }

    /// An event meets the record; whether it was right.
    fn event(&mut self, event: &Event, rules: &Rules) -> bool {
        let Some(record) = &self.record else { return false };
        match transition(record, event, &self.context(rules, true)) {
            Err(_) => return false,
            Ok(Write::Nothing) => {}
            Ok(Write::Update(written) | Write::UpdateAndCloseEffects(written)) => self.write(Some(written)),
            Ok(Write::Delete { mark }) => {
                self.record = None;
                self.forgotten = true;
                self.marks.forgotten_before =
                    mark.map_or(self.marks.forgotten_before, |mark| mark.max(self.marks.forgotten_before));
            }
        }
        true
    }

    fn write(&mut self, written: Option<Record>) {
        let Some(written) = written else { return };
        for handler in &mut self.handlers {
            // From here on samekey knows when to drop the handler's task.
            if handler.fence == written.fence && handler.until.is_none() {
                handler.until = written.settle_after;
            }
        }
        self.record = Some(written);
    }
}
