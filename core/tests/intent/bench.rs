//! One page whose store and locks work at once, and whose network is the test.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use samekey_core::intent::{
    Action, Answer, Config, Engine, Event, Failure, NotPrepared, Operation, Request, State, StoredRecord, Submit,
    Trust, Until, Written,
};
use samekey_core::receipt::{Receipt, Word};

use crate::server::{ORIGIN, plain, with};

pub(crate) const START: i64 = 1_796_000_000_000;

pub(crate) struct Bench {
    pub(crate) now: i64,
    pub(crate) config: Config,
    pub(crate) engine: Engine,
    pub(crate) store: BTreeMap<String, StoredRecord>,
    pub(crate) store_works: bool,
    pub(crate) account: Option<String>,
    /// Locks that somebody else holds.
    pub(crate) locked: BTreeSet<String>,
    pub(crate) stolen: u32,
    /// Requests that are out, oldest first.
    pub(crate) out: VecDeque<(u32, Option<String>, Request)>,
    /// What was said of each promise.
    pub(crate) promises: BTreeMap<u32, String>,
    pub(crate) log: Vec<&'static str>,
    pub(crate) refreshes: u32,
    pub(crate) wake: Option<i64>,
    pub(crate) seed: u8,
}

pub(crate) fn config(trust: Trust) -> Config {
    let operation = Operation {
        name: "orders.create".into(),
        matches: Some("POST /orders".into()),
        receipt: trust,
        ..Operation::default()
    };
    Config { base: Some(ORIGIN.into()), operations: vec![operation], locks: true, ..Config::default() }
}

impl Bench {
    pub(crate) fn new(trust: Trust) -> Self {
        Self::with(config(trust))
    }

    pub(crate) fn with(config: Config) -> Self {
        let engine = Engine::new(config.clone(), [1; 32]).unwrap();
        let mut bench = Self {
            now: START,
            config,
            engine,
            store: BTreeMap::new(),
            store_works: true,
            account: Some("ann".into()),
            locked: BTreeSet::new(),
            stolen: 0,
            out: VecDeque::new(),
            promises: BTreeMap::new(),
            log: Vec::new(),
            refreshes: 0,
            wake: None,
            seed: 1,
        };
        bench.step(Event::Account { account: bench.account.clone() });
        bench
    }

    /// The page is loaded anew; what was out is heard by nobody.
    pub(crate) fn reload(&mut self) {
        self.seed += 1;
        self.engine = Engine::new(self.config.clone(), [self.seed; 32]).unwrap();
        self.out.clear();
        self.wake = None;
        self.step(Event::Account { account: self.account.clone() });
    }

    pub(crate) fn step(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.engine.step(self.now, event) {
                events.extend(self.perform(action));
            }
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Read => return Some(Event::Loaded { records: self.store.values().cloned().collect() }),
            Action::Write { write, record, expected } => {
                let won = self.store.get(&record.id).map(|stored| stored.revision) == expected;
                let result = match (self.store_works, won) {
                    (false, _) => Written::Failed,
                    (true, false) => Written::Lost,
                    (true, true) => {
                        self.store.insert(record.id.clone(), record);
                        Written::Done
                    }
                };
                return Some(Event::Written { write, result });
            }
            Action::Erase { write, id, expected } => {
                assert_eq!(self.store.remove(&id).map(|stored| stored.revision), Some(expected));
                return Some(Event::Written { write, result: Written::Done });
            }
            Action::Prepare { id, steal, .. } => {
                if self.locked.contains(&id) && !steal {
                    return Some(Event::NotPrepared { id, why: NotPrepared::Busy });
                }
                self.stolen += u32::from(self.locked.remove(&id));
                return Some(Event::Prepared { id, account: self.account.clone() });
            }
            Action::WhoIsIt => return Some(Event::Account { account: self.account.clone() }),
            Action::RefreshAuth { .. } => self.refreshes += 1,
            Action::Fetch { exchange, id, request, .. } => self.out.push_back((exchange, id, request)),
            Action::Accepted { call, id, joined } => self.keep(call, format!("accepted {id} {joined}")),
            Action::Resolved { call, id, joined } => {
                let state = self.engine.view(&id).unwrap().state().as_str();
                self.keep(call, format!("{state} {joined}"));
            }
            Action::Done { call, ids } => self.keep(call, format!("done {}", ids.len())),
            Action::Rejected { call, code, .. } => self.keep(call, code.as_str().into()),
            Action::Log { code, .. } => self.log.push(code),
            Action::Wake { after_ms } => self.wake = Some(self.now + i64::from(after_ms)),
            Action::Tell | Action::Release { .. } | Action::Changed { .. } | Action::Gone { .. } => {}
        }
        None
    }

    fn keep(&mut self, call: u32, said: String) {
        assert_eq!(self.promises.insert(call, said), None, "promise {call} is settled twice");
    }

    pub(crate) fn promise(&self, call: u32) -> &str {
        self.promises.get(&call).map_or("open", String::as_str)
    }

    pub(crate) fn order(call: u32, body: &str) -> Submit {
        Submit {
            call,
            until: Until::Outcome,
            account: Some("ann".into()),
            method: "POST".into(),
            url: format!("{ORIGIN}/orders"),
            headers: vec![("Content-Type".into(), "application/json".into())],
            body: Some(body.into()),
            ..Submit::default()
        }
    }

    pub(crate) fn submit(&mut self, submit: Submit) {
        self.step(Event::Submit(Box::new(submit)));
    }

    /// Time passes, and timers ring; nothing of what is out is answered.
    pub(crate) fn pass(&mut self, length: i64) {
        let end = self.now + length;
        while let Some(rings) = self.wake.filter(|at| *at <= end) {
            self.now = self.now.max(rings);
            self.wake = None;
            self.step(Event::Tick);
        }
        self.now = end;
    }

    /// The next request, after as much time as it takes.
    pub(crate) fn request(&mut self) -> Request {
        for _ in 0..2_000 {
            self.drop_contracts();
            if let Some((_, _, request)) = self.out.front() {
                return request.clone();
            }
            let rings = self.wake.unwrap_or_else(|| panic!("nothing will ever be sent: {:?}", self.states()));
            self.pass(rings - self.now);
        }
        panic!("nothing is sent: {:?}", self.states());
    }

    /// Nobody answers for the contract here.
    fn drop_contracts(&mut self) {
        while let Some(at) = self.out.iter().position(|(_, id, _)| id.is_none()) {
            let (exchange, ..) = self.out.remove(at).unwrap();
            self.step(Event::Failed { exchange, why: Failure::Network });
        }
    }

    /// Nothing is sent for so long.
    pub(crate) fn is_quiet_for(&mut self, length: i64) {
        let end = self.now + length;
        while self.now < end {
            self.drop_contracts();
            assert!(self.out.is_empty(), "{:?} is sent", self.out);
            let next = self.wake.map_or(end, |at| at.clamp(self.now, end));
            self.pass(next - self.now);
            self.now = self.now.max(next);
            if self.wake.is_none() {
                self.now = end;
            }
        }
        self.drop_contracts();
        assert!(self.out.is_empty(), "{:?} is sent", self.out);
    }

    pub(crate) fn answer(&mut self, answer: Answer) -> Request {
        let request = self.request();
        let (exchange, ..) = self.out.pop_front().unwrap();
        self.now += 20;
        self.step(Event::Answered { exchange, answer: Box::new(answer) });
        request
    }

    pub(crate) fn lose(&mut self, why: Failure) -> Request {
        let request = self.request();
        let (exchange, ..) = self.out.pop_front().unwrap();
        self.now += 20;
        self.step(Event::Failed { exchange, why });
        request
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.engine.ids().map(Into::into).collect()
    }

    pub(crate) fn states(&self) -> Vec<State> {
        self.engine.ids().map(|id| self.engine.view(id).unwrap().state()).collect()
    }

    /// The only intent.
    pub(crate) fn only(&self) -> samekey_core::intent::View<'_> {
        let ids: Vec<&str> = self.engine.ids().collect();
        assert_eq!(ids.len(), 1, "one intent");
        self.engine.view(ids[0]).unwrap()
    }
}

pub(crate) fn completed() -> Answer {
    stated(201, Receipt::of(Word::Completed))
}

pub(crate) fn stated(status: u16, receipt: Receipt) -> Answer {
    with(plain(status, "application/json", "{\"id\":\"o1\"}"), "samekey-state", &receipt.to_string())
}

pub(crate) fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
}
