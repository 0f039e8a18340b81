//! The events of the engine as methods, and its actions performed by the shell.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use samekey_core::intent::{self, Action, Answer, Event, Failure, NotPrepared, StoredRecord, Submit, Turn, Until, Written};
use wasm_bindgen::prelude::*;

use crate::settings::Settings;
use crate::shell::Shell;

/// How a write ended.
#[wasm_bindgen]
pub enum Ended {
    Done = "done",
    Lost = "lost",
    Failed = "failed",
}

/// Why nothing was prepared.
#[wasm_bindgen]
pub enum Unprepared {
    Busy = "busy",
    Threw = "threw",
}

/// Why there is no whole answer.
#[wasm_bindgen]
pub enum Missing {
    Network = "network",
    Timeout = "timeout",
    NotSent = "not_sent",
}

/// What a call waits for.
#[wasm_bindgen]
pub enum Wanted {
    Durable = "durable",
    Outcome = "outcome",
    Patience = "patience",
}

/// One engine, for one page or worker.
#[wasm_bindgen]
pub struct Engine {
    engine: RefCell<intent::Engine>,
    shell: Shell,
    /// Read so far of the store, until it is told that this is all.
    records: RefCell<Vec<StoredRecord>>,
    /// What is to be performed. An action may bring the next event while it is begun, and the actions of that one
    /// come behind those that are here.
    actions: RefCell<VecDeque<Action>>,
    performing: Cell<bool>,
}

#[wasm_bindgen]
impl Engine {
    /// `seed`: 32 bytes of `getRandomValues`.
    #[wasm_bindgen(constructor)]
    pub fn new(shell: Shell, settings: Settings, seed: &[u8]) -> Self {
        let mut chance = [0; 32];
        chance.iter_mut().zip(seed).for_each(|(to, from)| *to = *from);
        Self {
            engine: RefCell::new(intent::Engine::new(settings.into_config(), chance)),
            shell,
            records: RefCell::default(),
            actions: RefCell::default(),
            performing: Cell::new(false),
        }
    }

    /// One record of those that the store has.
    pub fn load(&self, id: String, account: Option<String>, revision: f64, format: u32, data: Vec<u8>) {
        self.records.borrow_mut().push(StoredRecord { id, account, revision: revision as u64, format, data });
    }

    /// That was all.
    pub fn loaded(&self) {
        let records = self.records.take();
        self.step(Event::Loaded { records });
    }

    /// Who is signed in.
    pub fn account(&self, account: Option<String>) {
        self.step(Event::Account { account });
    }

    /// A call of `submit`, `enqueue` or `fetch`.
    #[expect(clippy::too_many_arguments, reason = "one call, and objects would have to be made of names")]
    pub fn submit(
        &self,
        call: u32,
        until: Wanted,
        patience: f64,
        account: Option<String>,
        method: String,
        url: String,
        operation: Option<String>,
        headers: Vec<String>,
        body: Option<Vec<u8>>,
        credentials: Option<String>,
        slot: Option<String>,
        another: bool,
        key: Option<String>,
        label: Option<String>,
        meta: Option<String>,
    ) {
        let until = match until {
            Wanted::Durable => Until::Durable,
            Wanted::Patience => Until::Patience(patience as u32),
            _ => Until::Outcome,
        };
        self.step(Event::Submit(Box::new(Submit {
            call,
            until,
            account,
            method,
            url,
            operation,
            headers: pairs(headers),
            body,
            credentials,
            slot,
            another,
            key,
            label,
            meta,
        })));
    }

    /// The application waits for the outcome of an intent.
    pub fn wait(&self, call: u32, id: String) {
        self.step(Event::Wait { call, id });
    }

    /// One intent, or every one.
    pub fn resume(&self, call: u32, id: Option<String>, #[wasm_bindgen(js_name = acceptRisk)] accept_risk: bool) {
        self.step(Event::Resume { call, id, accept_risk });
    }

    /// It shall not happen.
    pub fn cancel(&self, call: u32, id: String) {
        self.step(Event::Cancel { call, id });
    }

    /// It is to be forgotten.
    pub fn dismiss(&self, call: u32, id: String, #[wasm_bindgen(js_name = acceptRisk)] accept_risk: bool) {
        self.step(Event::Dismiss { call, id, accept_risk });
    }

    /// The account leaves this device.
    #[wasm_bindgen(js_name = signOut)]
    pub fn sign_out(&self, call: u32, discard: bool) {
        self.step(Event::SignOut { call, discard });
    }

    /// Nobody waits for this call any more.
    pub fn aborted(&self, call: u32) {
        self.step(Event::Aborted { call });
    }

    /// How a write ended.
    pub fn written(&self, write: u32, ended: Ended) {
        let result = match ended {
            Ended::Done => Written::Done,
            Ended::Lost => Written::Lost,
            _ => Written::Failed,
        };
        self.step(Event::Written { write, result });
    }

    /// The lock is held, and headers and account are known.
    pub fn prepared(&self, id: String, account: Option<String>) {
        self.step(Event::Prepared { id, account });
    }

    /// Nothing is held.
    pub fn unprepared(&self, id: String, why: Unprepared) {
        let why = if matches!(why, Unprepared::Busy) { NotPrepared::Busy } else { NotPrepared::Threw };
        self.step(Event::NotPrepared { id, why });
    }

    /// A whole answer.
    pub fn answered(&self, exchange: u32, status: u16, headers: Vec<String>, body: Vec<u8>) {
        let answer = Box::new(Answer { status, headers: pairs(headers), body });
        self.step(Event::Answered { exchange, answer });
    }

    /// No whole answer.
    pub fn failed(&self, exchange: u32, why: Missing) {
        let why = match why {
            Missing::NotSent => Failure::NotSent,
            Missing::Timeout => Failure::Timeout,
            _ => Failure::Network,
        };
        self.step(Event::Failed { exchange, why });
    }

    /// What `refreshAuth` said.
    pub fn refreshed(&self, id: String, again: bool) {
        self.step(Event::Refreshed { id, again });
    }

    /// Another tab or worker wrote or erased a record.
    pub fn told(&self, id: String, gone: bool) {
        self.step(Event::Told { id, gone });
    }

    /// Look what is due.
    pub fn tick(&self) {
        self.step(Event::Tick);
    }

    /// A hint.
    pub fn online(&self, online: bool) {
        self.step(Event::Online(online));
    }

    /// Whether `fetch` makes an intent of such a request.
    pub fn covers(&self, method: &str, url: &str) -> bool {
        self.engine.borrow().covers(method, url)
    }

    /// The outbox in its order.
    pub fn ids(&self) -> Vec<String> {
        self.engine.borrow().ids()
    }

    /// An intent as JSON, but for the bytes of its response.
    pub fn view(&self, id: &str) -> Option<String> {
        self.engine.borrow().view(id).map(|view| view.to_json())
    }

    /// The bytes of its response.
    pub fn body(&self, id: &str) -> Option<Vec<u8>> {
        self.engine.borrow().view(id)?.response()?.body.clone()
    }
}

impl Engine {
    fn step(&self, event: Event) {
        let now = self.shell.now() as i64;
        let actions = self.engine.borrow_mut().step(now, event);
        self.actions.borrow_mut().extend(actions);
        if self.performing.replace(true) {
            return;
        }
        while let Some(action) = self.next() {
            self.perform(action);
        }
        self.performing.set(false);
    }

    /// Apart from its use, so that nothing is borrowed while the action is begun.
    fn next(&self) -> Option<Action> {
        self.actions.borrow_mut().pop_front()
    }

    fn perform(&self, action: Action) {
        let shell = &self.shell;
        match action {
            Action::Read => shell.read(),
            Action::Write { write, record, expected } => {
                let StoredRecord { id, account, revision, format, data } = record;
                shell.write(write, &id, account, revision as f64, format, data, expected.map(|it| it as f64));
            }
            Action::Erase { write, id, expected } => shell.erase(write, &id, expected as f64),
            Action::Tell { id, gone } => shell.tell(&id, gone),
            Action::Prepare { id, delivery, steal } => shell.prepare(&id, delivery, steal),
            Action::Fetch { exchange, id, request, timeout_ms } => {
                let headers = request.headers.into_iter().flat_map(|(name, value)| [name, value]).collect();
                let (method, url) = (&request.method, &request.url);
                shell.fetch(exchange, id, method, url, headers, request.body, request.credentials, timeout_ms);
            }
            Action::Release { id } => shell.release(&id),
            Action::RefreshAuth { id, delivery } => shell.refresh_auth(&id, delivery),
            Action::Accepted { call, id, joined } => shell.accepted(call, &id, joined),
            Action::Resolved { call, id, joined } => shell.resolved(call, &id, joined),
            Action::Done { call, ids } => shell.done(call, ids),
            Action::Rejected { call, code, id } => shell.rejected(call, code.as_str(), id),
            Action::Changed { id, turn } => shell.changed(
                &id,
                match turn {
                    Turn::Moved => "change",
                    Turn::Settled => "settled",
                    Turn::Attention => "attention",
                },
            ),
            Action::Gone { id } => shell.gone(&id),
            Action::Wake { after_ms } => shell.wake(after_ms),
            Action::Log { warn, code, id } => shell.log(warn, code, id),
        }
    }
}

fn pairs(texts: Vec<String>) -> Vec<(String, String)> {
    let mut texts = texts.into_iter();
    core::iter::from_fn(|| Some((texts.next()?, texts.next()?))).collect()
}
