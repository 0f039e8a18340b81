//! The promises that wait for intents.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::action::{Action, Rejection};
use super::engine::Engine;
use super::event::Until;
use super::held::{Busy, Op};
use super::record::Pause;

/// A promise that waits for an intent.
pub(super) struct Call {
    pub(super) call: u32,
    pub(super) id: String,
    pub(super) joined: bool,
    pub(super) until: Until,
    pub(super) patience: Option<Pause>,
}

impl Engine {
    pub(super) fn wait(&mut self, call: u32, id: String) {
        match self.find(&id).filter(|at| self.is_shown(&self.held[*at])) {
            Some(at) => {
                self.calls.push(Call { call, id, joined: false, until: Until::Outcome, patience: None });
                self.answer_calls(at);
            }
            None => self.reject(call, Rejection::InvalidOption, Some(id)),
        }
    }

    /// Settles the promises that an intent has kept.
    pub(super) fn answer_calls(&mut self, at: usize) {
        let held = &self.held[at];
        let quiet = matches!(held.busy, Busy::Free) && held.inbox.is_empty();
        if held.record.forgotten {
            return self.give_up_calls(&held.record.id.clone());
        }
        // Whoever is signed in now hears nothing of what somebody else did; the promise is kept when that one is back.
        if !self.is_shown(held) {
            return;
        }
        let (id, state, taken) = (held.record.id.clone(), held.record.state, held.record.taken);
        let mut told = false;
        let mut left = Vec::new();
        for waiting in mem::take(&mut self.calls) {
            let Call { call, joined, .. } = waiting;
            if waiting.id != id {
                left.push(waiting);
            } else if waiting.until == Until::Durable {
                self.actions.push(Action::Accepted { call, id: id.clone(), joined });
            } else if quiet && state.is_outcome() {
                told = true;
                self.actions.push(Action::Resolved { call, id: id.clone(), joined });
            } else {
                left.push(waiting);
            }
        }
        self.calls = left;
        if told && state.is_settled() && !taken {
            self.push(at, Op::Take);
        }
    }

    /// Whether a call waits for the outcome of an intent.
    pub(super) fn is_awaited(&self, id: &str) -> bool {
        self.calls.iter().any(|waiting| waiting.id == id && waiting.until != Until::Durable)
    }

    /// Nothing will be heard of an intent any more.
    pub(super) fn give_up_calls(&mut self, id: &str) {
        for waiting in mem::take(&mut self.calls) {
            if waiting.id == id {
                self.reject(waiting.call, Rejection::Closed, None);
            } else {
                self.calls.push(waiting);
            }
        }
    }

    /// A promise that waits for the outcome from now on.
    pub(super) fn await_outcome(&mut self, at: usize, call: u32) {
        let id = self.held[at].record.id.clone();
        self.calls.push(Call { call, id, joined: false, until: Until::Outcome, patience: None });
    }

    /// Calls whose patience is over.
    pub(super) fn impatient(&mut self) -> Vec<(u32, String)> {
        let now = self.now;
        let over = |patience: Option<Pause>| patience.is_some_and(|patience| patience.ends(now) <= now);
        let given_up = self.calls.iter().filter(|call| over(call.patience)).map(|call| (call.call, call.id.clone()));
        let given_up = given_up.collect();
        self.calls.retain(|call| !over(call.patience));
        for patience in self.calls.iter_mut().filter_map(|call| call.patience.as_mut()) {
            patience.seen(now);
        }
        given_up
    }
}
