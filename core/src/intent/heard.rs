//! What an exchange makes of a record.

use super::chance::Chance;
use super::config::Trust;
use super::date;
use super::event::{Answer, Failure};
use super::held::{About, Exchange, Heard};
use super::proof::{Cause, Finding, On, Proof};
use super::record::{LastError, Millis, Pause, Record, Response, Step};
use super::state::{Effect, State};
use crate::problem::Code;
use crate::receipt::Word;

use alloc::vec::Vec;

/// Answers without a receipt in a row, where receipts are due, after which a person is asked: samekey was taken out of
/// the server's way, and nothing is repeated there any more.
const MAX_UNRECEIPTED: u32 = 3;
/// Keys that one intent may use up: a server that calls every key expired is broken.
const MAX_KEYS: u32 = 4;

/// How often the status of something unknown is asked for when the retry budget is spent.
const ASK_ON: Millis = 3_600_000;

/// What is known beside the record and the answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    /// Receipts are due.
    pub(super) receipts: bool,
    /// How far the server's clock is ahead.
    pub(super) offset: Option<Millis>,
    /// How long the server lets clients retry.
    pub(super) budget: Option<Millis>,
    /// How long it remembers.
    pub(super) remember: Option<Millis>,
    /// A status link of the answer, absolute.
    pub(super) status_url: Option<alloc::string::String>,
}

/// Whether an intent ends by this, whoever delivers it now.
pub(super) fn ends(heard: &Heard) -> bool {
    matches!(heard, Heard::Answer(_, finding) if matches!(finding.proof, Proof::Ended | Proof::EndedBefore | Proof::Closed))
}

/// Applies it. `false`: there is nothing to write.
pub(super) fn apply(
    next: &mut Record,
    exchange: &Exchange,
    heard: &Heard,
    now: Millis,
    terms: &Terms,
    chance: &mut Chance,
) -> bool {
    let About::Intent(_, on) = exchange.about else { return false };
    next.lease = None;
    next.out &= on != On::Delivery;
    next.offset = terms.offset.or(next.offset);
    next.remember = terms.remember.or(next.remember);
    let mut change = Change { next, on, now, chance, terms, floor: None };
    match heard {
        Heard::Failure(failure) => change.nothing(*failure),
        Heard::Answer(answer, finding) => change.answer(answer, finding),
    }
    change.bound(exchange.asked_at);
    true
}

struct Change<'a> {
    next: &'a mut Record,
    on: On,
    now: Millis,
    chance: &'a mut Chance,
    terms: &'a Terms,
    /// What `Retry-After` says.
    floor: Option<Millis>,
}

impl Change<'_> {
    /// No whole answer.
    fn nothing(&mut self, failure: Failure) {
        let cause = if failure == Failure::Timeout { Cause::Timeout } else { Cause::Network };
        self.blame(cause, None);
        if self.on != On::Delivery {
            return self.later(self.next.step);
        }
        let next = &mut *self.next;
        if failure == Failure::NotSent {
            next.deliveries = next.deliveries.saturating_sub(1);
            if next.deliveries == 0 {
                next.unsend();
            }
            return self.later(Step::Deliver);
        }
        next.ambiguous = true;
        let safe = next.covered || next.trust != Trust::Auto;
        self.later(if safe { Step::Deliver } else { Step::Ask });
    }

    fn answer(&mut self, answer: &Answer, finding: &Finding) {
        let server_now = self.now.saturating_add(self.next.offset.unwrap_or(0));
        self.floor = answer.header("retry-after").and_then(|text| date::retry_after(text, server_now));
        if self.on != On::Status {
            self.next.hidden = answer.status == 0;
        }
        self.credit(answer, finding);
        // Whoever says any of this knows of a delivery that ran or runs, and may forget it later.
        let runs = finding.word == Some(Word::InProgress) || finding.code == Some(Code::OperationInProgress);
        self.next.ambiguous |= runs || finding.proof == Proof::Uncertain;
        match finding.proof {
            Proof::Ended => self.ended(finding, Some(answer.status), Some(response(answer, answer.status, true))),
            Proof::EndedBefore => {
                // The answer is fetched by another delivery, unless it was one that cannot be seen.
                if self.on == On::Status && finding.response_stored && !self.next.hidden {
                    self.next.ambiguous = true;
                    return self.at_once(Step::Deliver);
                }
                let status = finding.status_code;
                self.ended(finding, status, Some(response(answer, status.unwrap_or(0), false)));
            }
            Proof::Closed => self.next.settle(State::Cancelled, Effect::No, self.now),
            Proof::Conflict => {
                self.next.settle(State::Conflict, Effect::No, self.now);
                self.next.response = Some(response(answer, answer.status, true));
            }
            Proof::Refused if self.next.ambiguous => self.unknown(),
            Proof::Refused => {
                self.next.settle(State::Failed, Effect::No, self.now);
                self.next.response = Some(response(answer, answer.status, true));
            }
            Proof::KeyExpired => self.expired(finding),
            Proof::SignIn => {
                self.next.refused_auth = self.next.refused_auth.saturating_add(1);
                self.park(State::NeedsAuth);
            }
            Proof::OtherActor if core::mem::replace(&mut self.next.other_actor, true) => self.unknown(),
            Proof::OtherActor => self.park(State::NeedsAuth),
            Proof::Again => {
                if runs {
                    self.next.state = State::Waiting;
                }
                self.later(self.next.step);
            }
            Proof::Ask => {
                self.next.ambiguous = true;
                self.unreceipted(Step::Ask);
                // Also while it is being closed: closing again would be answered the same.
                self.next.step = Step::Ask;
            }
            // 404 `none` says that a record would be there, but only of methods that are covered without being named.
            Proof::Free if finding.word == Some(Word::None) && !self.next.covered => self.unknown(),
            Proof::Free => {
                // No record: none yet, or none any more. Only the first means that nothing ran.
                self.next.ambiguous &= finding.word == Some(Word::None) && !self.remembers(finding);
                match self.floor {
                    Some(_) => self.later(Step::Deliver),
                    None => self.at_once(Step::Deliver),
                }
            }
            Proof::Uncertain => self.unknown(),
            Proof::NoMemory if self.terms.receipts && finding.word.is_none() => self.unreceipted(self.next.step),
            Proof::NoMemory => self.unknown(),
            Proof::Uncovered | Proof::ByStatus => self.by_status(answer),
        }
    }

    /// What an answer says beside its outcome.
    fn credit(&mut self, answer: &Answer, finding: &Finding) {
        let delivered = self.on == On::Delivery;
        let next = &mut *self.next;
        let covers = match finding.word {
            None => finding.code.is_some(),
            Some(Word::NotCovered) => false,
            // Whoever asks about a key of a route that nobody covers hears this, too.
            Some(Word::None) if !delivered => matches!(next.method.as_str(), "POST" | "PATCH"),
            Some(_) => true,
        };
        next.covered |= covers;
        if covers {
            next.unreceipted = 0;
        }
        if !matches!(finding.proof, Proof::SignIn | Proof::OtherActor) && covers {
            next.refused_auth = 0;
        }
        if let Some(tag) = answer.header("samekey-actor").filter(|_| finding.word.is_some()) {
            next.actor = Some(tag.into());
        }
        if self.terms.status_url.is_some() {
            next.status_url.clone_from(&self.terms.status_url);
        }
        let cause = match (finding.code, finding.word) {
            (Some(code), _) => Some(Cause::Code(code)),
            (None, Some(Word::NotCovered)) => Some(Cause::NotCovered),
            (None, Some(Word::Completed | Word::None)) => None,
            (None, None) if finding.proof != Proof::ByStatus => Some(Cause::NoReceipt),
            (None, _) => (answer.status >= 400).then_some(Cause::Status),
        };
        match cause {
            Some(cause) => self.blame(cause, Some(answer)),
            None => self.next.error = None,
        }
    }

    fn blame(&mut self, cause: Cause, answer: Option<&Answer>) {
        let status = answer.map_or(0, |answer| answer.status);
        let request_id = answer.and_then(|answer| answer.header("x-request-id")).map(Into::into);
        self.next.error = Some(LastError { cause, status, request_id });
    }

    /// The record ended with this status.
    fn ended(&mut self, finding: &Finding, status: Option<u16>, response: Option<Response>) {
        let completed = match finding.word {
            Some(Word::Completed) => true,
            Some(Word::Failed) => false,
            // A receipt that a cross-origin page may not read: the status tells the same.
            _ => status.is_some_and(|status| (200..400).contains(&status)),
        };
        let refused = status.is_some_and(|status| (400..500).contains(&status));
        let (state, effect) = match completed {
            true => (State::Done, Effect::Yes),
            false if refused && !finding.effect_unknown => (State::Failed, Effect::No),
            false => (State::Failed, Effect::Unknown),
        };
        self.next.settle(state, effect, self.now);
        self.next.response = response;
    }

    fn by_status(&mut self, answer: &Answer) {
        let (state, effect) = match answer.status {
            0 | 200..400 => (State::Done, Effect::Yes),
            400..500 => (State::Failed, Effect::No),
            _ => (State::Failed, Effect::Unknown),
        };
        self.next.settle(state, effect, self.now);
        self.next.response = Some(response(answer, answer.status, true));
    }

    /// The server has forgotten keys of this one's time. A new one is minted only if nothing can have run under it:
    /// every delivery was refused, or the first byte left less than `remember` ago, by the server's own clock, and a
    /// run would be remembered.
    fn expired(&mut self, finding: &Finding) {
        let nothing_ran = !self.next.ambiguous || self.remembers(finding);
        let next = &mut *self.next;
        if nothing_ran && next.closing {
            next.settle(State::Cancelled, Effect::No, self.now);
        } else if nothing_ran && (1..MAX_KEYS).contains(&next.minted) {
            next.unsend();
            self.at_once(Step::Deliver);
        } else {
            self.next.closing = false;
            self.park(State::Expired);
        }
    }

    /// Whether the server would still remember a run, by its own clock: the first byte left less than `remember` ago.
    fn remembers(&self, finding: &Finding) -> bool {
        match (self.next.server_before, finding.server_time, self.next.remember) {
            (Some(before), Some(time), Some(remember)) => (0..remember).contains(&time.saturating_sub(before)),
            _ => false,
        }
    }

    /// No receipt where one is due.
    fn unreceipted(&mut self, step: Step) {
        self.next.unreceipted = self.next.unreceipted.saturating_add(1);
        if self.terms.receipts && self.next.unreceipted >= MAX_UNRECEIPTED {
            self.park(State::Stalled);
        } else {
            self.later(step);
        }
    }

    /// Nothing but a person moves it.
    fn park(&mut self, state: State) {
        self.next.state = state;
        self.next.pause = None;
    }

    /// It may or may not have happened. The status route is asked from time to time, because somebody may settle it.
    fn unknown(&mut self) {
        self.later(if self.next.trust == Trust::Status { Step::Deliver } else { Step::Ask });
        self.next.state = State::Unknown;
    }

    fn at_once(&mut self, step: Step) {
        self.next.go_on(step);
        self.next.state = State::Waiting;
    }

    /// The next exchange after a pause. What was unknown stays so until somebody knows more.
    fn later(&mut self, step: Step) {
        let next = &mut *self.next;
        let unknown = next.state == State::Unknown;
        next.failures = next.failures.saturating_add(1);
        let length = next.retry.pause(next.failures, self.floor, self.chance);
        next.go_on(step);
        next.pause = Some(Pause::new(self.now, length));
        if unknown {
            next.state = State::Unknown;
        }
    }

    /// Holds what goes on within the retry budget.
    fn bound(&mut self, asked_at: Millis) {
        let Self { next, now, terms, .. } = self;
        let (Some(sent), Some(deadline)) = (next.first_sent_at, next.deadline) else { return };
        if next.state.is_settled() {
            return;
        }
        // No longer than the contract says, and no longer from now on than a whole budget: clocks go back.
        let budget = terms.budget.map_or(next.retry.budget(), |budget| budget.min(next.retry.budget()));
        let renewed = deadline > sent.saturating_add(next.retry.budget());
        let deadline = if renewed { deadline } else { deadline.min(sent.saturating_add(budget)) };
        let deadline = deadline.min(now.saturating_add(budget));
        next.deadline = Some(deadline);
        let spent = asked_at >= deadline;
        match next.state {
            // What is due at once was found out by this try, and is a part of it.
            State::Waiting if spent && next.pause.is_some() => {
                next.state = State::Stalled;
                next.pause = None;
            }
            // Somebody will settle it there, or the server gives it up; where nobody remembers it, nobody will.
            State::Unknown if spent => next.pause = next.covered.then(|| Pause::new(*now, ASK_ON)),
            // The last try is at the deadline.
            _ if deadline > *now => {
                if let Some(pause) = &mut next.pause {
                    pause.until = pause.until.min(deadline);
                    pause.length = pause.length.min(deadline.saturating_sub(*now));
                }
            }
            _ => {}
        }
    }
}

/// What of an answer is shown and kept; without its body where it tells of another one.
fn response(answer: &Answer, status: u16, whole: bool) -> Response {
    let location = |header: &&(alloc::string::String, alloc::string::String)| whole || header.0 == "location";
    Response {
        status,
        headers: answer.headers.iter().filter(location).cloned().collect::<Vec<_>>(),
        body: whole.then(|| answer.body.clone()),
        replayed: !whole || answer.header("idempotent-replayed") == Some("true"),
    }
}

/// Whether somebody is certainly signed in for whom this was said.
pub(super) fn admits(finding: &Finding) -> bool {
    let refused = matches!(finding.code, Some(Code::ActorRequired | Code::ActorChanged));
    !refused && matches!(finding.word, Some(Word::Completed | Word::Failed | Word::InProgress | Word::Uncertain))
}
