//! Tabs, a store, a network and a server, all of them faulty, and one clock that only the test can see.
//!
//! Whatever an engine asks for becomes a task that happens later, in any order that real shells could produce. A tab may
//! die between any two of them: what it asked for and has left the tab (a write, a request) may still happen, what it
//! was to be told does not.

use std::collections::{BTreeMap, BTreeSet};

use samekey_core::intent::{
    Action, Config, Engine, Event, Failure, NotPrepared, Operation, Request, State, StoredRecord, Submit, Trust, Turn,
    Until, Written,
};

use crate::chance::Chance;
use crate::server::{self, Kind, ORIGIN, Server};

pub(crate) const DAY: i64 = 86_400_000;

/// What goes wrong, in times out of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) request_lost: u64,
    pub(crate) answer_lost: u64,
    pub(crate) portal: u64,
    pub(crate) gateway: u64,
    pub(crate) write_failed: u64,
    pub(crate) threw: u64,
    pub(crate) crash: u64,
    pub(crate) clock_step: u64,
}

pub(crate) enum Task {
    /// Told to a tab.
    Tell(u64, Event),
    /// A write reaches the store; its tab is told.
    Store(u64, u32, Change),
    /// A request reaches the server.
    Arrive(u64, u32, Option<String>, Request),
}

pub(crate) enum Change {
    Put(StoredRecord, Option<u64>),
    Erase(String, u64),
}

pub(crate) struct Tab {
    pub(crate) engine: Engine,
    wake: Option<i64>,
    /// Requests that are out, by exchange: the intent, and whether it is a delivery.
    out: BTreeMap<u32, (String, bool)>,
}

/// What became of a promise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kept {
    Accepted(String, bool),
    Resolved(String, bool, State),
    Done(Vec<String>),
    Rejected(&'static str),
}

pub(crate) struct World {
    pub(crate) chance: Chance,
    /// True time.
    pub(crate) now: i64,
    /// How far the device's clock is off.
    pub(crate) skew: i64,
    pub(crate) faults: Faults,
    pub(crate) config: Config,
    pub(crate) server: Server,
    pub(crate) store: BTreeMap<String, StoredRecord>,
    pub(crate) tabs: BTreeMap<u64, Tab>,
    pub(crate) account: Option<String>,
    tasks: BTreeMap<(i64, u64), Task>,
    locks: BTreeMap<String, u64>,
    next: u64,
    pub(crate) kept: BTreeMap<u32, Kept>,
    /// Keys under which each intent was sent, in their order.
    pub(crate) keys: BTreeMap<String, Vec<String>>,
    /// Keys of which the server said that they are expired.
    pub(crate) expired: BTreeSet<String>,
    pub(crate) told: bool,
    /// What each intent sent last, by the tag of its call.
    pub(crate) tags: BTreeMap<String, String>,
}

impl World {
    pub(crate) fn new(seed: u64, kind: Kind, trust: Trust, locks: bool) -> Self {
        let now = 1_796_000_000_000;
        let operation = Operation {
            name: "orders.create".into(),
            matches: Some("POST /orders".into()),
            receipt: trust,
            ..Operation::default()
        };
        let config = Config {
            origin: Some(ORIGIN.into()),
            base: Some(ORIGIN.into()),
            operations: vec![operation],
            locks,
            ..Config::default()
        };
        Self {
            chance: Chance(seed),
            now,
            skew: 0,
            faults: Faults::default(),
            config,
            server: Server::new(kind, now),
            store: BTreeMap::new(),
            tabs: BTreeMap::new(),
            account: Some("ann".into()),
            tasks: BTreeMap::new(),
            locks: BTreeMap::new(),
            next: 0,
            kept: BTreeMap::new(),
            keys: BTreeMap::new(),
            expired: BTreeSet::new(),
            told: false,
            tags: BTreeMap::new(),
        }
    }

    fn serial(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn wall(&self) -> i64 {
        self.now + self.skew
    }

    pub(crate) fn open(&mut self) -> u64 {
        let tab = self.serial();
        let engine = Engine::new(self.config.clone(), self.chance.seed()).unwrap();
        self.tabs.insert(tab, Tab { engine, wake: None, out: BTreeMap::new() });
        let account = self.account.clone();
        self.tell(tab, Event::Account { account });
        tab
    }

    /// The tab is gone, with its locks.
    pub(crate) fn kill(&mut self, tab: u64) {
        self.note(|| format!("tab {tab} dies"));
        self.tabs.remove(&tab);
        self.locks.retain(|_, holder| *holder != tab);
        // Of its requests in the air some had not left yet; of its writes as well.
        let mut lost = Vec::new();
        for (at, task) in &self.tasks {
            let theirs = matches!(task, Task::Store(of, ..) | Task::Arrive(of, ..) if *of == tab);
            if theirs && self.chance.permille(500) {
                lost.push(*at);
            }
        }
        for at in lost {
            self.tasks.remove(&at);
        }
    }

    /// A history with a seed of its own is told as it goes.
    #[allow(clippy::print_stderr, reason = "asked for by its seed")]
    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        if self.told {
            eprintln!("{:>12} {}", self.now - 1_796_000_000_000, line());
        }
    }

    pub(crate) fn submit(&mut self, tab: u64, call: u32, body: &str, slot: Option<&str>, another: bool) {
        let submit = Submit {
            call,
            until: Until::Outcome,
            account: self.account.clone(),
            method: "POST".into(),
            url: format!("{ORIGIN}/orders"),
            headers: vec![("content-type".into(), "application/json".into()), ("x-tag".into(), call.to_string())],
            body: Some(body.into()),
            slot: slot.map(Into::into),
            another,
            ..Submit::default()
        };
        self.tell(tab, Event::Submit(Box::new(submit)));
    }

    /// An event, now.
    pub(crate) fn tell(&mut self, tab: u64, event: Event) {
        let wall = self.wall();
        let Some(open) = self.tabs.get_mut(&tab) else { return };
        match &event {
            Event::Answered { exchange, .. } | Event::Failed { exchange, .. } => {
                open.out.remove(exchange);
            }
            _ => {}
        }
        let shown = self.told.then(|| format!("{event:?}"));
        let actions = open.engine.step(wall, event);
        self.note(|| format!("tab {tab} <- {}", shown.unwrap_or_default()));
        for action in actions {
            self.perform(tab, action);
        }
    }

    fn later(&mut self, after: i64, task: Task) {
        let serial = self.serial();
        self.tasks.insert((self.now + after, serial), task);
    }

    fn perform(&mut self, tab: u64, action: Action) {
        self.note(|| format!("tab {tab} -> {action:?}"));
        let quick = self.chance.range(0, 20);
        match action {
            Action::Read => {
                let records = self.store.values().cloned().collect();
                self.later(quick, Task::Tell(tab, Event::Loaded { records }));
            }
            Action::Write { write, record, expected } => {
                self.later(quick, Task::Store(tab, write, Change::Put(record, expected)));
            }
            Action::Erase { write, id, expected } => {
                self.later(quick, Task::Store(tab, write, Change::Erase(id, expected)));
            }
            Action::Tell => {
                let others: Vec<u64> = self.tabs.keys().copied().filter(|other| *other != tab).collect();
                for other in others {
                    let delay = self.chance.range(0, 40);
                    self.later(delay, Task::Tell(other, Event::Told));
                }
            }
            Action::WhoIsIt => {
                let account = self.account.clone();
                self.later(quick, Task::Tell(tab, Event::Account { account }));
            }
            Action::Prepare { id, steal, .. } => {
                let holder = self.locks.get(&id).copied();
                let event = if holder.is_some_and(|holder| holder != tab) && !steal && self.config.locks {
                    Event::NotPrepared { id, why: NotPrepared::Busy }
                } else if self.chance.permille(self.faults.threw) {
                    Event::NotPrepared { id, why: NotPrepared::Threw }
                } else {
                    self.locks.insert(id.clone(), tab);
                    Event::Prepared { id, account: self.account.clone() }
                };
                self.later(quick, Task::Tell(tab, event));
            }
            Action::Release { id } => {
                if self.locks.get(&id) == Some(&tab) {
                    self.locks.remove(&id);
                }
            }
            Action::RefreshAuth { id, .. } => {
                let again = self.server.signed_in;
                self.later(quick, Task::Tell(tab, Event::Refreshed { id, again }));
            }
            Action::Fetch { exchange, id, request, .. } => self.fetch(tab, exchange, id, request),
            Action::Accepted { call, id, joined } => self.keep(call, Kept::Accepted(id, joined)),
            Action::Resolved { call, id, joined } => {
                let state = self.tabs[&tab].engine.view(&id).map(|view| view.state());
                assert!(state.is_some_and(State::is_outcome), "a promise is kept with an outcome, not with {state:?}");
                self.keep(call, Kept::Resolved(id, joined, state.unwrap()));
            }
            Action::Done { call, ids } => self.keep(call, Kept::Done(ids)),
            Action::Rejected { call, code, .. } => self.keep(call, Kept::Rejected(code.as_str())),
            Action::Changed { id, turn } => self.changed(tab, &id, turn),
            Action::Gone { .. } | Action::Log { .. } => {}
            Action::Wake { after_ms } => {
                assert!(after_ms <= 3_600_000, "a timer that fits");
                let rings = self.now + i64::from(after_ms);
                self.tabs.get_mut(&tab).unwrap().wake = Some(rings);
            }
        }
    }

    fn keep(&mut self, call: u32, kept: Kept) {
        let before = self.kept.insert(call, kept);
        assert!(before.is_none(), "promise {call} is settled a second time, it was {before:?}");
    }

    fn fetch(&mut self, tab: u64, exchange: u32, id: Option<String>, request: Request) {
        let delivery = request.method == "POST";
        if let Some(id) = &id {
            if delivery {
                self.check_delivery(tab, id, &request);
            }
            self.tabs.get_mut(&tab).unwrap().out.insert(exchange, (id.clone(), delivery));
        }
        let faults = self.faults;
        let slow = self.chance.range(5, 400);
        if self.chance.permille(faults.request_lost) {
            return self.later(slow, Task::Tell(tab, Event::Failed { exchange, why: Failure::Network }));
        }
        if self.chance.permille(faults.portal) {
            let answer = Box::new(server::plain(200, "text/html; charset=utf-8", "<h1>Welcome to the hotel</h1>"));
            return self.later(slow, Task::Tell(tab, Event::Answered { exchange, answer }));
        }
        self.later(slow, Task::Arrive(tab, exchange, id, request));
    }

    /// Before a byte leaves.
    fn check_delivery(&mut self, tab: u64, id: &str, request: &Request) {
        let key = server::key(request).expect("a delivery carries its key");
        let tag = server::tag(request);
        // A page that is loaded at this very moment knows key and delivery.
        let mut reader = Engine::new(self.config.clone(), [9; 32]).unwrap();
        let records = self.store.values().cloned().collect();
        reader.step(self.wall(), Event::Account { account: self.account.clone() });
        reader.step(self.wall(), Event::Loaded { records });
        let view = reader.view(id).unwrap_or_else(|| panic!("{id} is sent and not stored"));
        assert_eq!(view.key(), Some(key.as_str()), "sent under another key than is stored");
        // Its state may be that of somebody who cancelled it since.
        assert!(view.maybe_sent() && view.deliveries() > 0, "stored as sent");
        // One delivery at a time.
        let others = self.tabs.values().flat_map(|open| open.out.values()).filter(|(of, post)| of == id && *post);
        assert_eq!(others.count(), 0, "tab {tab} sends {id} while it is out");
        // Never a second key, except on proof that nothing ran.
        let keys = self.keys.entry(id.into()).or_default();
        if keys.last() != Some(&key) {
            if let Some(before) = keys.last() {
                assert!(self.expired.contains(before), "a new key although {before} is not expired");
                assert_eq!(self.server.ran(&tag), 0, "a new key although it ran");
                assert!(!self.server.may_run(before), "a new key although the old one may run");
            }
            keys.push(key);
        }
        self.tags.insert(id.into(), tag);
    }

    fn changed(&mut self, tab: u64, id: &str, turn: Turn) {
        let view = self.tabs[&tab].engine.view(id);
        let view = view.expect("what changed is shown");
        let json = view.to_json();
        let parsed: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        assert_eq!(parsed["state"], view.state().as_str());
        if let Some(next) = parsed["nextAttemptAt"].as_i64() {
            let most = DAY + 301_000;
            assert!(next <= self.wall() + most, "the next try is {} ms away", next - self.wall());
        }
        if turn == Turn::Settled {
            self.check_settled(tab, id);
        }
    }

    /// What is settled can never run again, and is what the server says.
    fn check_settled(&mut self, tab: u64, id: &str) {
        let view = self.tabs[&tab].engine.view(id).unwrap();
        let (state, effect) = (view.state(), view.effect().as_str());
        let Some(tag) = self.tags.get(id).cloned() else {
            assert!(matches!(state, State::Cancelled | State::Conflict), "{state:?} without a delivery");
            return;
        };
        let ran = self.server.ran(&tag) > 0;
        if self.server.kind == Kind::Foreign {
            return;
        }
        for key in &self.keys[id] {
            let running = matches!(
                self.server.keys.get(key).map(|entry| &entry.standing),
                Some(server::Standing::Running { .. })
            );
            assert!(running || !self.server.may_run(key), "{state:?}, and the key may still run");
        }
        match (state, effect) {
            (State::Done, "yes") => assert!(ran, "done, and it did not happen"),
            (State::Failed, "no") | (State::Cancelled, _) => assert!(!ran, "{state:?}, and it happened"),
            (State::Failed, "unknown") | (State::Conflict, _) => {}
            other => panic!("{other:?}"),
        }
    }

    /// The next thing that is to happen; `false`: nothing is.
    pub(crate) fn happen(&mut self) -> bool {
        let task = self.tasks.keys().next().copied();
        let wake = self.tabs.iter().filter_map(|(tab, open)| open.wake.map(|at| (at, *tab))).min();
        match (task, wake) {
            (Some((at, _)), Some((rings, tab))) if rings < at => self.ring(rings, tab),
            (None, Some((rings, tab))) => self.ring(rings, tab),
            (Some(at), _) => {
                self.now = self.now.max(at.0);
                let task = self.tasks.remove(&at).unwrap();
                self.run(task);
            }
            (None, None) => return false,
        }
        true
    }

    fn ring(&mut self, at: i64, tab: u64) {
        self.now = self.now.max(at);
        self.tabs.get_mut(&tab).unwrap().wake = None;
        self.tell(tab, Event::Tick);
    }

    fn run(&mut self, task: Task) {
        match task {
            Task::Tell(tab, event) => self.tell(tab, event),
            Task::Store(tab, write, change) => {
                let result = self.put(change);
                let delay = self.chance.range(0, 10);
                self.later(delay, Task::Tell(tab, Event::Written { write, result }));
            }
            Task::Arrive(tab, exchange, id, request) => {
                let faults = self.faults;
                let (now, slow) = (self.now, self.chance.range(5, 400));
                let mut answer = self.server.answer(&request, now, &mut self.chance);
                let lost = self.chance.permille(faults.answer_lost);
                let key = server::key(&request);
                let expired = String::from_utf8_lossy(&answer.body).contains("key_expired");
                self.expired.extend(key.filter(|_| expired && !lost));
                let shown = format!(
                    "{} {} -> {} {:?}",
                    request.method,
                    id.as_deref().unwrap_or(""),
                    answer.status,
                    answer.headers
                );
                self.note(|| shown);
                if lost {
                    let (why, after) = *self.chance.pick(&[(Failure::Network, slow), (Failure::Timeout, 60_000)]);
                    return self.later(after, Task::Tell(tab, Event::Failed { exchange, why }));
                }
                if self.chance.permille(faults.gateway) {
                    answer = server::plain(504, "text/html", "<h1>Gateway Timeout</h1>");
                }
                self.later(slow, Task::Tell(tab, Event::Answered { exchange, answer: Box::new(answer) }));
            }
        }
    }

    fn put(&mut self, change: Change) -> Written {
        if self.chance.permille(self.faults.write_failed) {
            // Some fail after they were done.
            if self.chance.permille(300) {
                self.write(change);
            }
            return Written::Failed;
        }
        if self.write(change) { Written::Done } else { Written::Lost }
    }

    fn write(&mut self, change: Change) -> bool {
        match change {
            Change::Put(record, expected) => {
                let won = self.store.get(&record.id).map(|stored| stored.revision) == expected;
                if won {
                    self.store.insert(record.id.clone(), record);
                }
                won
            }
            Change::Erase(id, expected) => {
                let won = self.store.get(&id).is_some_and(|stored| stored.revision == expected);
                if won {
                    let age = "only what is settled is erased";
                    assert!(id == "samekey" || self.is_settled(&id), "{age}: {id}");
                    self.store.remove(&id);
                }
                won
            }
        }
    }

    /// As a page sees it that is loaded now.
    pub(crate) fn reader(&self) -> Engine {
        let mut reader = Engine::new(self.config.clone(), [8; 32]).unwrap();
        reader.step(self.wall(), Event::Account { account: self.account.clone() });
        reader.step(self.wall(), Event::Loaded { records: self.store.values().cloned().collect() });
        reader
    }

    fn is_settled(&self, id: &str) -> bool {
        // A record that is forgotten is not shown, and settled by that.
        self.reader().view(id).is_none_or(|view| view.state().is_settled())
    }

    pub(crate) fn until(&mut self, end: i64) {
        while self
            .tasks
            .keys()
            .next()
            .map(|(at, _)| *at)
            .into_iter()
            .chain(self.tabs.values().filter_map(|tab| tab.wake))
            .min()
            .is_some_and(|at| at <= end)
        {
            if !self.happen() {
                break;
            }
        }
        self.now = self.now.max(end);
    }
}
