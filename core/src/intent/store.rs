//! Writing, and taking over what others wrote.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::action::{Action, Rejection, Turn};
use super::codec;
use super::engine::Engine;
use super::held::{Attempt, Busy, GRACE, Held, Op};
use super::record::{Millis, Pause, Record, StoredRecord};
use super::state::State;

/// The id of a record that is no intent and is never erased: where it is gone, the store was emptied behind our back.
const CANARY: &str = "samekey";
/// How long the store is left alone after it failed.
const STORE_PAUSE: Millis = 5_000;

impl Engine {
    /// Asks for a write; what belongs to it happens when it is done.
    pub(super) fn write(&mut self, at: usize, mut next: Record, op: Op) {
        next.updated_at = self.now;
        let write = self.number();
        let held = &mut self.held[at];
        let record = next.stored(held.revision.unwrap_or(0) + 1);
        self.actions.push(Action::Write { write, record, expected: held.revision });
        held.busy = Busy::Writing(write, Some(Box::new(next)), op);
        if !self.canary && self.canary_write.is_none() {
            let write = self.number();
            let (id, format) = (CANARY.into(), codec::FORMAT);
            let record = StoredRecord { id, account: None, revision: 1, format, data: Vec::new() };
            self.canary_write = Some(write);
            self.actions.push(Action::Write { write, record, expected: None });
        }
    }

    pub(super) fn erase(&mut self, at: usize) {
        let Some(expected) = self.held[at].revision else { return };
        let write = self.number();
        let held = &mut self.held[at];
        held.busy = Busy::Writing(write, None, Op::Erase);
        self.actions.push(Action::Erase { write, id: held.record.id.clone(), expected });
    }

    /// A write is done, and the record is as it says.
    pub(super) fn durable(&mut self, at: usize, op: Op, before: State) {
        match op {
            Op::Claim => self.send(at),
            Op::Heard(exchange, _) => self.heard_durably(at, &exchange),
            Op::Replace(submit) => {
                let id = self.held[at].record.id.clone();
                self.call(&submit, id, false);
            }
            Op::Resume(call, _) => self.done(call),
            Op::Dismiss(call, _) => {
                let id = self.held[at].record.id.clone();
                self.actions.push(Action::Gone { id });
                self.done(Some(call));
            }
            Op::Forget => self.forgotten(at, false),
            Op::Cancel(Some(call)) => self.await_outcome(at, call),
            _ => {}
        }
        self.show(at, turn(before, &self.held[at]));
    }

    /// A write failed. What a person asked for is refused; what a server said is believed all the same.
    pub(super) fn not_durable(&mut self, at: usize, op: Op, next: Option<Box<Record>>) {
        let id = self.held[at].record.id.clone();
        self.log("storage", Some(&id));
        self.held[at].hold = Some(Pause::new(self.now, STORE_PAUSE));
        match (op, next) {
            (Op::Create, _) => {
                for waiting in core::mem::take(&mut self.calls) {
                    if waiting.id == id {
                        self.reject(waiting.call, Rejection::Storage, None);
                    } else {
                        self.calls.push(waiting);
                    }
                }
                self.held[at].dropped = true;
            }
            (Op::Claim, _) => self.release(at),
            (Op::Heard(exchange, _), Some(next)) => {
                let held = &mut self.held[at];
                let before = core::mem::replace(&mut held.record, *next).state;
                held.unsaved = true;
                self.heard_durably(at, &exchange);
                self.show(at, turn(before, &self.held[at]));
            }
            (Op::Replace(submit), _) => self.reject(submit.call, Rejection::Storage, None),
            (Op::Resume(Some(call), _) | Op::Cancel(Some(call)) | Op::Dismiss(call, _), _) => {
                self.reject(call, Rejection::Storage, Some(id));
            }
            (Op::Forget, _) => self.forgotten(at, true),
            _ => {}
        }
    }

    pub(super) fn release(&mut self, at: usize) {
        let held = &mut self.held[at];
        if matches!(held.attempt, Attempt::Locked | Attempt::Out) {
            self.actions.push(Action::Release { id: held.record.id.clone() });
        }
        held.attempt = Attempt::Idle;
    }

    /// The store was read.
    pub(super) fn merge(&mut self, records: &[StoredRecord]) {
        let first = !core::mem::replace(&mut self.loaded, true);
        self.reading = false;
        let sighted = records.iter().any(|stored| stored.id == CANARY);
        let emptied = core::mem::replace(&mut self.canary, sighted) && !sighted;
        for at in 0..self.held.len() {
            let there = records.iter().find(|stored| stored.id == self.held[at].record.id);
            match there {
                Some(stored) => {
                    self.held[at].fresh = false;
                    self.take_over(at, stored);
                }
                None => self.missing(at, emptied),
            }
        }
        for stored in records {
            let known = self.held.iter().any(|held| held.record.id == stored.id && !held.dropped);
            if known || stored.id == CANARY {
                continue;
            }
            match codec::read(stored) {
                Some(record) => self.adopt(record, stored.revision, first),
                // Left as it is, for the newer library in another tab, or for whoever can mend it.
                None if stored.format > codec::FORMAT => self.log("newer_format", Some(&stored.id)),
                None => self.log("unreadable", Some(&stored.id)),
            }
        }
        self.sort();
        for at in 0..self.held.len() {
            self.advance(at);
        }
        if core::mem::take(&mut self.read_again) {
            self.read();
        }
    }

    /// By age. Most stand right already, so the plainest way is fast, and it is the smallest, too.
    fn sort(&mut self) {
        let age = |held: &Held| (held.record.created_at, held.record.id.clone());
        for end in 1..self.held.len() {
            let mut at = end;
            while at > 0 && age(&self.held[at - 1]) > age(&self.held[at]) {
                self.held.swap(at - 1, at);
                at -= 1;
            }
        }
    }

    fn adopt(&mut self, record: Record, revision: u64, first: bool) {
        self.learn_from(&record);
        let lease_left = self.lease_left(&record, first);
        self.held.push(Held { lease_left, ..Held::new(record, Some(revision)) });
        self.show(self.held.len() - 1, Turn::Moved);
    }

    /// How long somebody else's lock or lease is obeyed from now on. A clock that stepped since the lease was written
    /// must not end it, so its moment counts only where a page begins and has no lock to tell whether the holder lives.
    fn lease_left(&self, record: &Record, first: bool) -> Millis {
        let whole = record.retry.attempt_timeout() + GRACE;
        match &record.lease {
            Some(lease) if first && !self.config.locks => {
                lease.pause.ends(self.now).saturating_sub(self.now).clamp(0, whole)
            }
            _ => whole,
        }
    }

    /// The store holds a record that is known.
    fn take_over(&mut self, at: usize, stored: &StoredRecord) {
        let held = &self.held[at];
        let newer = held.revision.is_none_or(|known| stored.revision > known);
        match held.busy {
            // The write will say whether it won.
            Busy::Writing(..) => return,
            Busy::Free if !newer => return,
            _ => {}
        }
        self.held[at].busy = Busy::Free;
        let Some(record) = codec::read(stored).filter(|_| newer) else { return };
        self.learn_from(&record);
        // What the store could not take and nobody else has found out is still to be kept.
        if self.held[at].unsaved && !record.state.is_settled() && self.held[at].record.state.is_settled() {
            self.held[at].revision = Some(stored.revision);
            return;
        }
        let held = &mut self.held[at];
        let before = held.record.state;
        // The answer's body may have been too long to be stored, but not to be shown.
        let response = held.record.response.take().filter(|_| record.state == before);
        held.record = record;
        if response.is_some() {
            held.record.response = response;
        }
        held.revision = Some(stored.revision);
        held.unsaved = false;
        self.held[at].lease_left = self.lease_left(&self.held[at].record, false);
        if self.held[at].record.forgotten {
            let id = self.held[at].record.id.clone();
            self.actions.push(Action::Gone { id });
        }
        self.show(at, turn(before, &self.held[at]));
    }

    /// The store does not hold a record that was there.
    fn missing(&mut self, at: usize, emptied: bool) {
        let held = &mut self.held[at];
        if held.dropped || held.revision.is_none() || matches!(held.busy, Busy::Writing(..)) {
            return;
        }
        if core::mem::take(&mut held.fresh) {
            self.read_again = true;
            return;
        }
        if !emptied || held.record.state.is_settled() {
            // Erased, a day after its outcome was taken, by whoever looked first.
            self.drop_held(at);
            return;
        }
        held.revision = None;
        held.unsaved = true;
        held.busy = Busy::Free;
        held.inbox.insert(0, Op::Save);
        let id = held.record.id.clone();
        self.log("evicted", Some(&id));
    }
}

/// What kind of change made an intent what it is.
fn turn(before: State, held: &Held) -> Turn {
    let state = held.record.state;
    if state.is_settled() && !before.is_settled() {
        Turn::Settled
    } else if state.needs_somebody() && state != before && !held.refreshing {
        Turn::Attention
    } else {
        Turn::Moved
    }
}
