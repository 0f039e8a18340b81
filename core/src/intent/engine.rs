//! The state machine: one event in, actions out.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::action::{Action, Rejection, Turn};
use super::calls::Call;
use super::chance::Chance;
use super::config::Config;
use super::event::{Event, NotPrepared, Written};
use super::held::{Attempt, Busy, Exchange, Farewell, Held, Op};
use super::record::{Millis, Pause, Record};
use super::servers::Server;
use super::state::{State, View, WaitingFor};
use crate::select::{Profile, SelectError};

/// How long others are left alone who hold a lock or a lease, before they are looked at again.
pub(super) const LOOK_AGAIN: Millis = 5_000;
/// How long the store is taken to be as it was read, while nobody tells of a change.
const READ_AGAIN: Millis = 300_000;

/// All intents of one page or worker.
pub struct Engine {
    pub(super) config: Config,
    /// One for each operation, and one for all others.
    pub(super) profiles: Vec<Profile>,
    pub(super) chance: Chance,
    /// Whose leases are ours.
    pub(super) owner: String,
    pub(super) now: Millis,
    /// The store has been read.
    pub(super) loaded: bool,
    /// The store is being read.
    pub(super) reading: bool,
    /// It changed meanwhile.
    pub(super) read_again: bool,
    /// How long what was read is good enough if nobody says otherwise.
    pub(super) read_at: Option<Pause>,
    /// The store was seen to hold what is never erased.
    pub(super) canary: bool,
    pub(super) canary_write: Option<u32>,
    /// Who is signed in, once somebody said so.
    pub(super) account: Option<Option<String>>,
    pub(super) account_asked: Option<Pause>,
    /// Since it is said that there is no network: how long that is believed.
    pub(super) offline: Option<Pause>,
    pub(super) held: Vec<Held>,
    pub(super) calls: Vec<Call>,
    /// Calls that came before the store was read.
    early: Vec<Event>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) servers: Vec<Server>,
    pub(super) farewells: Vec<Farewell>,
    pub(super) actions: Vec<Action>,
    wake: Option<Pause>,
    counter: u32,
}

impl Engine {
    /// An engine that knows nothing yet. `seed` comes from a cryptographic source and is drawn for each engine.
    pub fn new(config: Config, seed: [u8; 32]) -> Result<Self, SelectError> {
        let mut profiles = Vec::new();
        for operation in &config.operations {
            profiles.push(Profile::new(None, operation.significant.clone())?);
        }
        profiles.push(Profile::default());
        let mut chance = Chance::new(seed);
        let owner = String::from(chance.key(0).expose());
        Ok(Self {
            config,
            profiles,
            chance,
            owner,
            now: 0,
            loaded: false,
            reading: false,
            read_again: false,
            read_at: None,
            canary: false,
            canary_write: None,
            account: None,
            account_asked: None,
            offline: None,
            held: Vec::new(),
            calls: Vec::new(),
            early: Vec::new(),
            exchanges: Vec::new(),
            servers: Vec::new(),
            farewells: Vec::new(),
            actions: Vec::new(),
            wake: None,
            counter: 0,
        })
    }

    /// Something happened.
    pub fn step(&mut self, now: Millis, event: Event) -> Vec<Action> {
        self.now = now;
        match event {
            Event::Submit(_)
            | Event::Wait { .. }
            | Event::Resume { .. }
            | Event::Cancel { .. }
            | Event::Dismiss { .. }
            | Event::SignOut { .. }
                if !self.loaded =>
            {
                self.early.push(event);
            }
            event => self.handle(event),
        }
        if self.loaded {
            for event in mem::take(&mut self.early) {
                self.handle(event);
            }
        } else if !self.reading {
            self.read();
        }
        self.pump();
        mem::take(&mut self.actions)
    }

    /// The ids of what is shown: all intents of the account that is signed in, in the order of their calls.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.held.iter().filter(|held| self.is_shown(held)).map(|held| held.record.id.as_str())
    }

    /// One intent as it is shown.
    pub fn view(&self, id: &str) -> Option<View<'_>> {
        let held = self.held.iter().find(|held| held.record.id == id && self.is_shown(held))?;
        Some(View { record: &held.record, waiting_for: self.waiting_for(held) })
    }

    pub(super) fn is_shown(&self, held: &Held) -> bool {
        let kept = held.revision.is_some() || held.unsaved;
        kept && !held.record.forgotten && !held.dropped && self.account.as_ref() == Some(&held.record.account)
    }

    fn waiting_for(&self, held: &Held) -> Option<WaitingFor> {
        let record = &held.record;
        match record.state {
            State::NeedsAuth => Some(WaitingFor::Auth),
            State::Queued | State::Waiting | State::Sending if self.is_leased_elsewhere(record) => {
                Some(WaitingFor::OtherTab)
            }
            State::Queued | State::Waiting if self.offline.is_some() || record.lost_network() => {
                Some(WaitingFor::Network)
            }
            State::Queued | State::Waiting => Some(WaitingFor::Server),
            _ => None,
        }
    }

    pub(super) fn is_leased_elsewhere(&self, record: &Record) -> bool {
        record.lease.as_ref().is_some_and(|lease| lease.owner != self.owner)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Loaded { records } => self.merge(&records),
            Event::Account { account } => self.set_account(account),
            Event::Submit(submit) => {
                self.set_account(submit.account.clone());
                self.submit(submit);
            }
            Event::Wait { call, id } => self.wait(call, id),
            Event::Resume { call, id, accept_risk } => self.resume(call, id, accept_risk),
            Event::Cancel { call, id } => self.ask_for(call, &id, Op::Cancel(Some(call))),
            Event::Dismiss { call, id, accept_risk } => self.ask_for(call, &id, Op::Dismiss(call, accept_risk)),
            Event::SignOut { call, discard } => self.sign_out(call, discard),
            Event::Aborted { call } => self.calls.retain(|waiting| waiting.call != call),
            Event::Written { write, result } => self.written(write, result),
            Event::Prepared { id, account } => {
                self.set_account(account);
                match self.find(&id) {
                    Some(at) if self.held[at].attempt == Attempt::Preparing => {
                        self.held[at].attempt = Attempt::Locked;
                        self.push(at, Op::Claim);
                    }
                    _ => self.actions.push(Action::Release { id }),
                }
            }
            Event::NotPrepared { id, why } => self.not_prepared(&id, why),
            Event::Answered { exchange, answer } => self.answered(exchange, Ok(answer)),
            Event::Failed { exchange, why } => self.answered(exchange, Err(why)),
            Event::Refreshed { id, again } => {
                let Some(at) = self.find(&id) else { return };
                self.held[at].refreshing = false;
                self.held[at].hurry |= again;
                if !again {
                    self.show(at, Turn::Attention);
                }
            }
            Event::Told => self.read(),
            // The timer is gone, whatever the clock says.
            Event::Tick => {
                self.wake = None;
                // A page that died while it wrote has told nobody.
                if self.loaded && self.read_at.is_none_or(|pause| pause.ends(self.now) <= self.now) {
                    self.read();
                }
            }
            Event::Online(online) => {
                self.offline = (!online).then(|| Pause::new(self.now, self.config.retry.max_delay()));
                for at in 0..self.held.len() {
                    self.held[at].hurry |= online && self.held[at].record.lost_network();
                    if !self.held[at].record.state.is_settled() {
                        self.show(at, Turn::Moved);
                    }
                }
            }
        }
    }

    fn not_prepared(&mut self, id: &str, why: NotPrepared) {
        let Some(at) = self.find(id) else { return };
        self.held[at].attempt = Attempt::Idle;
        match why {
            NotPrepared::Busy => self.look_again(at),
            NotPrepared::Threw => self.push(at, Op::Threw),
        }
    }

    /// Somebody else is at it.
    pub(super) fn look_again(&mut self, at: usize) {
        let held = &mut self.held[at];
        held.lease_left -= LOOK_AGAIN;
        held.hold = Some(Pause::new(self.now, LOOK_AGAIN));
    }

    /// Who is signed in. Others' intents stay where they are, unseen.
    fn set_account(&mut self, account: Option<String>) {
        self.account_asked = None;
        if self.account.as_ref() == Some(&account) {
            return;
        }
        let before: Vec<bool> = self.held.iter().map(|held| self.is_shown(held)).collect();
        self.account = Some(account);
        for (at, shown) in before.into_iter().enumerate() {
            let held = &self.held[at];
            if self.is_shown(held) {
                // Whoever has just signed in can be asked for with what waited for that.
                self.held[at].hurry |= self.held[at].record.state == State::NeedsAuth;
                self.show(at, Turn::Moved);
            } else if shown {
                self.actions.push(Action::Gone { id: held.record.id.clone() });
            }
        }
    }

    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.held.iter().position(|held| held.record.id == id && !held.dropped)
    }

    pub(super) fn number(&mut self) -> u32 {
        self.counter = self.counter.wrapping_add(1);
        self.counter
    }

    pub(super) fn show(&mut self, at: usize, turn: Turn) {
        if self.is_shown(&self.held[at]) {
            let id = self.held[at].record.id.clone();
            self.actions.push(Action::Changed { id, turn });
        }
    }

    pub(super) fn log(&mut self, code: &'static str, id: Option<&str>) {
        self.actions.push(Action::Log { warn: true, code, id: id.map(String::from) });
    }

    pub(super) fn reject(&mut self, call: u32, code: Rejection, id: Option<String>) {
        self.actions.push(Action::Rejected { call, code, id });
    }

    /// Something that a person wants of an intent that is shown.
    pub(super) fn ask_for(&mut self, call: u32, id: &str, op: Op) {
        match self.find(id).filter(|at| self.is_shown(&self.held[*at])) {
            Some(at) => self.push(at, op),
            None => self.reject(call, Rejection::InvalidOption, None),
        }
    }

    /// Something happened to an intent. It is looked at when everything before it has been.
    pub(super) fn push(&mut self, at: usize, op: Op) {
        self.held[at].inbox.push(op);
        self.advance(at);
    }

    pub(super) fn advance(&mut self, at: usize) {
        while matches!(self.held[at].busy, Busy::Free) && !self.held[at].inbox.is_empty() && !self.held[at].dropped {
            let op = self.held[at].inbox.remove(0);
            self.run(at, op);
        }
        self.answer_calls(at);
    }

    /// Asks for the store's records, unless it has been asked already.
    pub(super) fn read(&mut self) {
        if self.reading {
            self.read_again = true;
        } else {
            self.reading = true;
            self.read_at = Some(Pause::new(self.now, READ_AGAIN));
            self.actions.push(Action::Read);
        }
    }

    /// Rings at this moment, unless the timer that runs does so earlier.
    pub(super) fn set_timer(&mut self, at: Option<Millis>) {
        /// Fits every timer, and bounds what a clock that stepped forward and back again can do.
        const LONGEST: Millis = 3_600_000;
        let length = at.map_or(LONGEST, |at| at.saturating_sub(self.now).clamp(0, LONGEST));
        let running = self.wake.map(|wake| wake.ends(self.now)).filter(|ends| *ends > self.now);
        if running.is_none_or(|ends| ends > self.now + length) {
            self.wake = Some(Pause::new(self.now, length));
            self.actions.push(Action::Wake { after_ms: length as u32 });
        }
    }
}

impl Engine {
    fn written(&mut self, write: u32, result: Written) {
        if self.canary_write == Some(write) {
            self.canary_write = None;
            self.canary = result != Written::Failed;
            return;
        }
        let ours = |held: &Held| matches!(held.busy, Busy::Writing(number, ..) if number == write);
        let Some(at) = self.held.iter().position(ours) else { return };
        let Busy::Writing(_, next, op) = mem::replace(&mut self.held[at].busy, Busy::Free) else { return };
        match (result, next) {
            (Written::Done, Some(next)) => {
                let held = &mut self.held[at];
                let before = mem::replace(&mut held.record, *next).state;
                held.revision = Some(held.revision.unwrap_or(0) + 1);
                held.unsaved = false;
                held.fresh = self.reading;
                self.actions.push(Action::Tell);
                self.durable(at, op, before);
            }
            (Written::Done, None) => self.drop_held(at),
            (Written::Lost, _) if self.held[at].revision.is_some() => {
                self.held[at].busy = Busy::Rereading;
                self.held[at].inbox.insert(0, op);
                self.read();
            }
            (_, next) => self.not_durable(at, op, next),
        }
        self.advance(at);
    }

    pub(super) fn drop_held(&mut self, at: usize) {
        self.release(at);
        self.held[at].dropped = true;
        let id = self.held[at].record.id.clone();
        for op in mem::take(&mut self.held[at].inbox) {
            if let Op::Resume(Some(call), _) | Op::Dismiss(call, _) | Op::Cancel(Some(call)) = op {
                self.reject(call, Rejection::Closed, None);
            }
        }
        self.give_up_calls(&id);
        self.actions.push(Action::Gone { id });
    }
}
