//! What becomes of a record when something happens to its intent.

use super::action::Rejection;
use super::config::Trust;
use super::engine::Engine;
use super::heard;
use super::held::{Attempt, Farewell, GRACE, Op};
use super::proof::{Cause, On};
use super::record::{LastError, Lease, Millis, Pause, Payload, Record, Step};
use super::state::{Effect, State};

use alloc::string::String;
use alloc::vec::Vec;

impl Record {
    /// It is over.
    pub(super) fn settle(&mut self, state: State, effect: Effect, now: Millis) {
        self.state = state;
        self.effect = Some(effect);
        self.settled_at = Some(now);
        self.payload = Payload::default();
        self.pause = None;
        self.lease = None;
        self.after = None;
    }

    /// The last exchange found no way to the server.
    pub(super) fn lost_network(&self) -> bool {
        self.error.as_ref().is_some_and(|error| matches!(error.cause, Cause::Network | Cause::Timeout))
    }

    /// What it does next, and at once.
    pub(super) fn go_on(&mut self, step: Step) {
        self.state = if self.deliveries == 0 && !self.closing { State::Queued } else { State::Waiting };
        self.step = if self.closing { Step::Close } else { step };
        self.pause = None;
    }

    /// Nothing of it may have left: the next delivery is the first under its key, which is minted then.
    pub(super) fn unsend(&mut self) {
        if self.minted > 0 {
            self.key = None;
        }
        self.first_sent_at = None;
        self.server_before = None;
        self.deadline = None;
        self.ambiguous = false;
    }

    pub(super) fn question(&self) -> On {
        match self.step {
            Step::Deliver => On::Delivery,
            Step::Ask => On::Status,
            Step::Close => On::Close,
        }
    }

    /// All but that it is over, for tabs that still know it.
    fn forget(&mut self, now: Millis) {
        if !self.state.is_settled() {
            self.settle(State::Cancelled, self.effect(), now);
        }
        self.account = None;
        self.print = [0; 32];
        for text in [&mut self.operation, &mut self.method, &mut self.url] {
            text.clear();
        }
        for text in [&mut self.slot, &mut self.label, &mut self.meta, &mut self.key, &mut self.actor] {
            *text = None;
        }
        (self.status_url, self.error, self.response) = (None, None, None);
        self.taken = true;
        self.forgotten = true;
    }
}

impl Engine {
    pub(super) fn run(&mut self, at: usize, op: Op) {
        let now = self.now;
        let mut next = self.held[at].record.clone();
        match &op {
            Op::Create | Op::Save => self.write(at, next, op),
            Op::Replace(_) => self.replace(at, op),
            Op::Claim => self.claim(at, next),
            Op::Threw => {
                if !next.state.is_settled() {
                    next.failures = next.failures.saturating_add(1);
                    next.error = Some(LastError { cause: Cause::Headers, status: 0, request_id: None });
                    let length = next.retry.pause(next.failures, None, &mut self.chance);
                    next.pause = Some(Pause::new(now, length));
                    self.write(at, next, op);
                }
            }
            Op::Heard(exchange, heard) => {
                let takes = !next.state.is_settled() && {
                    // Another tab took over meanwhile: only the end is still news.
                    let ours = next.lease.as_ref().is_some_and(|lease| lease.owner == self.owner);
                    ours || heard::ends(heard)
                };
                let terms = self.terms_of(&next, heard);
                if takes && heard::apply(&mut next, exchange, heard, now, &terms, &mut self.chance) {
                    next.taken = next.state.is_settled() && self.is_awaited(&next.id);
                    self.held[at].refreshing =
                        next.state == State::NeedsAuth && next.refused_auth == 1 && self.config.can_refresh;
                    self.write(at, next, op);
                } else {
                    self.release(at);
                }
            }
            Op::Take => {
                if next.state.is_settled() && !next.taken {
                    next.taken = true;
                    self.write(at, next, op);
                }
            }
            Op::Unblock(free) => {
                if next.after.take().is_some() && !next.state.is_settled() {
                    if !free {
                        next.settle(State::Conflict, Effect::No, now);
                    }
                    self.write(at, next, op);
                }
            }
            Op::Resume(call, accept_risk) => {
                let (call, accept_risk) = (*call, *accept_risk);
                match next.state {
                    State::Expired if !accept_risk => {
                        if let Some(call) = call {
                            self.reject(call, Rejection::InvalidOption, Some(next.id));
                        }
                    }
                    State::NeedsAuth | State::Stalled | State::Unknown | State::Expired => {
                        self.renew(&mut next, accept_risk);
                        self.write(at, next, op);
                    }
                    state => {
                        self.held[at].hurry |= !state.is_settled();
                        self.done(call);
                    }
                }
            }
            Op::Cancel(call) => {
                let call = *call;
                if next.state.is_settled() || next.closing && next.state == State::Waiting {
                    call.into_iter().for_each(|call| self.await_outcome(at, call));
                } else {
                    self.cancel(at, &mut next);
                    self.write(at, next, op);
                }
            }
            Op::Dismiss(call, accept_risk) => {
                if next.state.is_settled() || *accept_risk {
                    next.forget(now);
                    self.write(at, next, op);
                } else {
                    self.reject(*call, Rejection::InvalidOption, Some(next.id));
                }
            }
            Op::Forget => {
                next.forget(now);
                self.write(at, next, op);
            }
            Op::Erase => self.erase(at),
        }
    }

    /// The lock is held: the write that makes a delivery.
    fn claim(&mut self, at: usize, mut next: Record) {
        let now = self.now;
        if self.held[at].attempt != Attempt::Locked || !self.may_go(at) {
            self.release(at);
            return;
        }
        if core::mem::replace(&mut next.out, false) {
            // Somebody delivered it and was not heard of again.
            next.ambiguous = true;
            if next.step == Step::Deliver && !next.covered && next.trust == Trust::Auto {
                next.step = Step::Ask;
            }
        }
        if next.closing && next.step == Step::Deliver {
            next.step = Step::Close;
        }
        let length = next.retry.attempt_timeout() + GRACE;
        next.lease = Some(Lease { owner: self.owner.clone(), pause: Pause::new(now, length) });
        next.pause = None;
        if next.step == Step::Deliver {
            next.state = State::Sending;
            next.out = true;
            next.deliveries = next.deliveries.saturating_add(1);
            if next.first_sent_at.is_none() {
                let server = self.server_of(&next);
                let (offset, seen) = server.map_or((next.offset, None), |server| (server.offset, server.seen));
                if next.key.is_none() {
                    let key = self.chance.key(now.saturating_add(offset.unwrap_or(0)));
                    next.key = Some(String::from(key.expose()));
                    next.minted = next.minted.saturating_add(1);
                }
                next.first_sent_at = Some(now);
                next.server_before = seen;
                next.deadline = Some(now.saturating_add(next.retry.budget()));
            }
        } else if next.state != State::Unknown {
            next.state = State::Waiting;
        }
        self.held[at].hurry = false;
        self.write(at, next, Op::Claim);
    }

    /// Goes on because a person said so.
    fn renew(&self, next: &mut Record, accept_risk: bool) {
        let vouched = next.trust != Trust::Auto || next.covered;
        let unreceipted = next.unreceipted > 0;
        let step = match next.state {
            State::NeedsAuth => next.step,
            State::Expired => {
                next.unsend();
                Step::Deliver
            }
            _ if accept_risk || next.trust == Trust::Status => Step::Deliver,
            State::Stalled if vouched && !unreceipted => Step::Deliver,
            _ => Step::Ask,
        };
        next.refused_auth = 0;
        next.failures = 0;
        next.unreceipted = 0;
        if next.maybe_sent() {
            next.deadline = Some(self.now.saturating_add(next.retry.budget()));
        }
        next.go_on(step);
    }

    fn cancel(&self, at: usize, next: &mut Record) {
        if !next.maybe_sent() {
            next.settle(State::Cancelled, Effect::No, self.now);
            return;
        }
        next.closing = next.trust != Trust::Status;
        // What is out is heard first, and closed then if it is still open.
        if self.held[at].attempt != Attempt::Out {
            next.go_on(Step::Close);
        }
        if !next.closing {
            // Such a server has no way to close a key.
            next.state = State::Unknown;
            next.pause = None;
        }
    }

    /// `resume` for one intent, or for all that wait for somebody or something.
    pub(super) fn resume(&mut self, call: u32, id: Option<String>, accept_risk: bool) {
        if let Some(id) = id {
            self.ask_for(call, &id, Op::Resume(Some(call), accept_risk));
            return;
        }
        for at in 0..self.held.len() {
            let held = &self.held[at];
            let waits = matches!(held.record.state, State::NeedsAuth | State::Stalled | State::Unknown);
            if self.is_shown(held) && !held.record.state.is_settled() {
                self.held[at].hurry = true;
                if waits {
                    self.push(at, Op::Resume(None, false));
                }
            }
        }
        // A promise for all waits for none of them.
        self.done(Some(call));
    }

    pub(super) fn done(&mut self, call: Option<u32>) {
        if let Some(call) = call {
            self.actions.push(super::Action::Done { call, ids: Vec::new() });
        }
    }

    pub(super) fn sign_out(&mut self, call: u32, discard: bool) {
        let shown: Vec<usize> = (0..self.held.len()).filter(|at| self.is_shown(&self.held[*at])).collect();
        let mut farewell = Farewell { call, unresolved: Vec::new(), open: Vec::new(), failed: false };
        let mut leaving = Vec::new();
        for at in shown {
            let record = &self.held[at].record;
            if !record.state.is_settled() {
                farewell.unresolved.push(record.id.clone());
            }
            if discard || record.state.is_settled() {
                farewell.open.push(record.id.clone());
                leaving.push(at);
            }
            let id = record.id.clone();
            self.actions.push(super::Action::Gone { id });
        }
        // Nobody is signed in until somebody says who.
        self.account = None;
        self.farewells.push(farewell);
        for at in leaving {
            self.push(at, Op::Forget);
        }
        self.bid_farewell();
    }

    /// One more is forgotten, or could not be.
    pub(super) fn forgotten(&mut self, at: usize, kept: bool) {
        let id = &self.held[at].record.id;
        for farewell in &mut self.farewells {
            let open = farewell.open.len();
            farewell.open.retain(|open| open != id);
            farewell.failed |= kept && farewell.open.len() < open;
        }
        self.bid_farewell();
    }

    fn bid_farewell(&mut self) {
        for farewell in core::mem::take(&mut self.farewells) {
            if farewell.open.is_empty() && farewell.failed {
                self.reject(farewell.call, Rejection::Storage, None);
            } else if farewell.open.is_empty() {
                self.actions.push(super::Action::Done { call: farewell.call, ids: farewell.unresolved });
            } else {
                self.farewells.push(farewell);
            }
        }
    }
}
