//! What is due, and the exchanges with servers.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::action::{Action, Rejection, Request};
use super::address::Address;
use super::config::{RequestId, Trust};
use super::engine::{Engine, LOOK_AGAIN};
use super::event::{Answer, Failure};
use super::heard::{self, Terms};
use super::held::{About, Attempt, Busy, Exchange, GRACE, Heard, Held, Op};
use super::proof::{self, On};
use super::record::{Millis, Pause, Record};
use super::servers::Server;
use super::state::State;
use crate::uri::percent_encoded;

/// How long an outcome is kept after the application took it.
const KEEP_TAKEN: Millis = 24 * 3_600_000;
/// How many settled intents are kept: the list is for people, and every page reads all of it.
const MAX_SETTLED: usize = 1000;
/// How often the shell is asked who is signed in while something waits for somebody else.
const ASK_ACCOUNT: Millis = 60_000;

impl Engine {
    /// Begins what is due, and sets the timer for what will be.
    pub(super) fn pump(&mut self) {
        if !self.loaded {
            return;
        }
        let mut earliest = None;
        let mut note = |moment: Millis| earliest = Some(earliest.map_or(moment, |other: Millis| other.min(moment)));
        for at in 0..self.held.len() {
            self.unblock(at);
            let held = &mut self.held[at];
            for pause in [&mut held.record.pause, &mut held.hold].into_iter().flatten() {
                pause.seen(self.now);
            }
            if held.dropped || !matches!(held.busy, Busy::Free) || held.attempt != Attempt::Idle {
                continue;
            }
            let held = &self.held[at];
            if let Some(due) = self.due(held) {
                if due <= self.now {
                    self.start(at);
                }
                if self.held[at].attempt == Attempt::Idle {
                    note(self.due(&self.held[at]).unwrap_or(due));
                }
            } else if let Some(op) = self.tidies(held) {
                match held.hold.map(|hold| hold.ends(self.now)) {
                    Some(later) if later > self.now => note(later),
                    _ => self.push(at, op),
                }
            }
        }
        self.held.retain(|held| !held.dropped);
        for impatient in self.impatient() {
            self.reject(impatient.0, Rejection::Pending, Some(impatient.1));
        }
        self.calls.iter().filter_map(|call| call.patience).for_each(|patience| note(patience.ends(self.now)));
        if let Some(moment) = self.ask_account() {
            note(moment);
        }
        self.set_timer(earliest);
    }

    /// When an intent is to be looked at; nothing: not by itself.
    fn due(&self, held: &Held) -> Option<Millis> {
        let record = &held.record;
        let (now, hurry) = (self.now, held.hurry);
        let kept = held.revision.is_some();
        if !kept
            || record.state.is_settled()
            || record.after.is_some()
            || self.account.as_ref() != Some(&record.account)
        {
            return None;
        }
        let moves = match record.state {
            State::NeedsAuth | State::Stalled | State::Expired => hurry,
            State::Unknown => hurry || record.pause.is_some() || record.lease.is_some(),
            _ => true,
        };
        let pause = record.pause.filter(|_| !hurry).map_or(now, |pause| pause.ends(now));
        let offline = self.offline.filter(|_| !hurry).map_or(now, |offline| offline.ends(now));
        let hold = held.hold.map_or(now, |hold| hold.ends(now));
        moves.then_some(pause.max(offline).max(hold))
    }

    /// Whether an intent whose lock is held may be claimed.
    pub(super) fn may_go(&self, at: usize) -> bool {
        let held = &self.held[at];
        // Where locks end with their page, whoever holds the lease does not live any more.
        let free = self.config.locks || held.lease_left <= 0 || !self.is_leased_elsewhere(&held.record);
        free && self.due(held).is_some_and(|due| due <= self.now)
    }

    fn start(&mut self, at: usize) {
        let elsewhere = self.is_leased_elsewhere(&self.held[at].record);
        let held = &mut self.held[at];
        if elsewhere && held.lease_left > 0 && !self.config.locks {
            let length = held.lease_left.min(LOOK_AGAIN);
            held.lease_left -= length;
            held.hold = Some(Pause::new(self.now, length));
            return;
        }
        held.attempt = Attempt::Preparing;
        let (id, delivery) = (held.record.id.clone(), held.record.deliveries.saturating_add(1));
        let steal = self.config.locks && held.lease_left <= 0;
        self.actions.push(Action::Prepare { id, delivery, steal });
    }

    /// What stands behind another intent in its slot goes on when that one is over.
    fn unblock(&mut self, at: usize) {
        let held = &self.held[at];
        let Some(first) = &held.record.after else { return };
        if held.dropped || held.revision.is_none() || !matches!(held.busy, Busy::Free) || !held.inbox.is_empty() {
            return;
        }
        if held.hold.is_some_and(|hold| hold.ends(self.now) > self.now) {
            return;
        }
        let free = match self.find(first).map(|at| &self.held[at]) {
            None => Some(true),
            Some(first) if !first.inbox.is_empty() || !matches!(first.busy, Busy::Free) => None,
            Some(first) => match first.record.state {
                State::Cancelled => Some(true),
                // It was refused, so nothing stands in the slot any more.
                State::Failed => Some(first.record.effect() == super::Effect::No),
                State::Waiting | State::Sending | State::NeedsAuth if first.record.closing => None,
                _ => Some(false),
            },
        };
        if let Some(free) = free {
            self.push(at, Op::Unblock(free));
        }
    }

    /// What is still to be done about a settled intent: to keep what the store could not take, or to erase what
    /// nobody needs any more.
    fn tidies(&self, held: &Held) -> Option<Op> {
        let settled_at = held.record.settled_at?;
        if held.unsaved {
            return Some(Op::Save);
        }
        let age = self.now.saturating_sub(settled_at);
        let settled = self.held.iter().filter(|held| held.record.settled_at.is_some() && !held.dropped);
        let over = held.record.taken && age >= KEEP_TAKEN || settled.count() > MAX_SETTLED;
        (over && held.revision.is_some()).then_some(Op::Erase)
    }

    /// Asks who is signed in from time to time, while there is something that waits for somebody else.
    fn ask_account(&mut self) -> Option<Millis> {
        let foreign = |held: &Held| {
            let record = &held.record;
            !record.state.is_settled() && self.account.as_ref() != Some(&record.account)
        };
        if !self.held.iter().any(foreign) {
            return None;
        }
        let ends = self.account_asked.map(|asked| asked.ends(self.now));
        if ends.is_some_and(|ends| ends > self.now) {
            return ends;
        }
        // The first time is now only if nobody has said anything yet.
        if self.account.is_none() || ends.is_some() {
            self.actions.push(Action::WhoIsIt);
        }
        self.account_asked = Some(Pause::new(self.now, ASK_ACCOUNT));
        Some(self.now + ASK_ACCOUNT)
    }

    /// The claim is durable: now a byte may leave.
    pub(super) fn send(&mut self, at: usize) {
        let number = self.number();
        let record = &self.held[at].record;
        let (id, on, timeout_ms) = (record.id.clone(), record.question(), record.retry.attempt_timeout());
        let request = self.request(at, on);
        self.held[at].attempt = Attempt::Out;
        let about = About::Intent(id.clone(), on);
        self.exchanges.push(Exchange { number, about, asked_at: self.now });
        self.actions.push(Action::Fetch { exchange: number, id: Some(id), request, timeout_ms: timeout_ms as u32 });
    }

    fn request(&mut self, at: usize, on: On) -> Request {
        let request_id = String::from(self.chance.key(self.now).expose());
        let record = &self.held[at].record;
        let server = self.server_of(record);
        let delivery = on == On::Delivery;
        let content = |header: &&(String, String)| delivery || !header.0.starts_with("content-");
        let mut headers: Vec<_> = record.payload.headers.iter().filter(content).cloned().collect();
        let mut add = |name: &str, value: String| {
            headers.retain(|header| !header.0.eq_ignore_ascii_case(name));
            headers.push((name.into(), value));
        };
        if let Some(key) = &record.key {
            add("idempotency-key", quoted(key));
        }
        let known = record.covered || record.trust == Trust::Samekey || server.is_some_and(|server| server.known);
        let own = Address::parse(&record.url).map(|address| address.origin) == self.config.origin.as_deref();
        match &self.config.request_id {
            RequestId::Named(name) => add(name, request_id),
            RequestId::Auto if own || known => add("x-request-id", request_id),
            _ => {}
        }
        let tag = record.actor.as_deref();
        let tag = tag.or_else(|| server.and_then(|server| server.actor(record.account.as_deref())));
        if let Some(tag) = tag.filter(|_| known) {
            add("samekey-actor", tag.into());
        }
        let method = match on {
            On::Delivery => record.method.clone(),
            On::Status => "GET".into(),
            On::Close => "DELETE".into(),
        };
        Request {
            method,
            url: if delivery { record.url.clone() } else { self.status_url(record) },
            headers,
            body: record.payload.body.clone().filter(|_| delivery),
            credentials: record.payload.credentials.clone(),
        }
    }

    /// Where the server tells how a key stands: where it said so itself, or where it would by default.
    fn status_url(&self, record: &Record) -> String {
        if let Some(url) = &record.status_url {
            return url.clone();
        }
        let Some(address) = Address::parse(&record.url) else { return String::new() };
        let name = percent_encoded(&[record.method.as_str(), " ", address.path].concat());
        let route = ["/status?operation=", name.as_str()].concat();
        match self.servers.iter().find(|server| server.origin == address.origin) {
            Some(server) => server.route(&route),
            None => Server::new(address.origin).route(&route),
        }
    }

    pub(super) fn answered(&mut self, number: u32, result: Result<Box<Answer>, Failure>) {
        let Some(found) = self.exchanges.iter().position(|exchange| exchange.number == number) else { return };
        let exchange = self.exchanges.remove(found);
        let (id, on) = match &exchange.about {
            About::Contract(origin) => {
                if let (Ok(answer), Some(server)) = (result, self.servers.iter_mut().find(|it| it.origin == *origin)) {
                    server.read_contract(&answer.body);
                }
                return;
            }
            About::Intent(id, on) => (id.clone(), *on),
        };
        let Some(at) = self.find(&id) else {
            self.actions.push(Action::Release { id });
            return;
        };
        let heard = match result {
            Err(failure) => Heard::Failure(failure),
            Ok(answer) => {
                let record = &self.held[at].record;
                let (account, patience) = (record.account.clone(), record.retry.attempt_timeout() + GRACE);
                let finding = proof::find(on, &answer, self.kind_of(record));
                let url = record.url.clone();
                let now = self.now;
                if let Some(server) = self.server_at(&url) {
                    server.heard(&finding, exchange.asked_at, now, patience);
                    if let Some(tag) = answer.header("samekey-actor").filter(|_| finding.word.is_some()) {
                        server.learn_actor(account.as_deref(), tag);
                    }
                }
                if heard::admits(&finding) {
                    self.admitted(account.as_ref(), &url);
                }
                Heard::Answer(answer, finding)
            }
        };
        self.push(at, Op::Heard(exchange, heard));
    }

    /// Somebody is signed in there: what waits for that can go.
    fn admitted(&mut self, account: Option<&String>, url: &str) {
        let origin = |url: &str| Address::parse(url).map(|address| String::from(address.origin));
        let here = origin(url);
        for held in &mut self.held {
            let record = &held.record;
            let waits = record.state == State::NeedsAuth && !record.other_actor && record.account.as_ref() == account;
            held.hurry |= waits && origin(&record.url) == here;
        }
    }

    /// What an exchange made of the record is kept: the lock goes, and what follows begins.
    pub(super) fn heard_durably(&mut self, at: usize, exchange: &Exchange) {
        self.release(at);
        let held = &self.held[at];
        let (id, delivery) = (held.record.id.clone(), held.record.deliveries);
        if held.refreshing {
            self.actions.push(Action::RefreshAuth { id: id.clone(), delivery });
        }
        let error = held.record.error.as_ref().map(|error| error.cause);
        if let (About::Intent(_, On::Delivery), Some(cause)) = (&exchange.about, error) {
            match cause {
                proof::Cause::NotCovered => self.log("not_covered", Some(&id)),
                proof::Cause::NoReceipt => self.log("no_receipt", Some(&id)),
                _ => {}
            }
        }
        let record = &self.held[at].record;
        let open = matches!(record.state, State::Waiting | State::Unknown | State::Stalled);
        let (url, now, timeout_ms) = (record.url.clone(), self.now, record.retry.attempt_timeout());
        let number = self.number();
        let Some(server) = self.server_at(&url).filter(|server| open && server.lacks_contract(now)) else { return };
        server.contract_asked = Some(now);
        let about = About::Contract(server.origin.clone());
        let request = Request {
            method: "GET".into(),
            url: server.route("/contract"),
            headers: Vec::new(),
            body: None,
            credentials: Some("omit".into()),
        };
        self.exchanges.push(Exchange { number, about, asked_at: now });
        self.actions.push(Action::Fetch { exchange: number, id: None, request, timeout_ms: timeout_ms as u32 });
    }

    fn kind_of(&self, record: &Record) -> proof::Server {
        match record.trust {
            Trust::Status => proof::Server::Status,
            Trust::Auto if !record.covered && !self.server_of(record).is_some_and(|server| server.known) => {
                proof::Server::New
            }
            _ => proof::Server::Samekey,
        }
    }

    pub(super) fn server_of(&self, record: &Record) -> Option<&Server> {
        let address = Address::parse(&record.url)?;
        self.servers.iter().find(|server| server.origin == address.origin)
    }

    /// The server that a URL leads to.
    fn server_at(&mut self, url: &str) -> Option<&mut Server> {
        let address = Address::parse(url)?;
        let found = self.servers.iter().position(|server| server.origin == address.origin);
        let found = found.unwrap_or_else(|| {
            self.servers.push(Server::new(address.origin));
            self.servers.len() - 1
        });
        self.servers.get_mut(found)
    }

    pub(super) fn terms_of(&mut self, record: &Record, heard: &Heard) -> Terms {
        let receipts = self.kind_of(record) == proof::Server::Samekey;
        let Some(path) = Address::parse(&record.url).map(|address| address.path) else { return Terms::default() };
        let Some(server) = self.server_at(&record.url) else { return Terms::default() };
        let status_url = match heard {
            Heard::Answer(answer, finding) if finding.word.is_some() => {
                proof::status_link(answer).and_then(|link| server.status_url(&link))
            }
            _ => None,
        };
        let (budget, remember) = server.terms(record, path);
        Terms { receipts, offset: server.offset, budget, remember, status_url }
    }

    /// What an earlier page learned of a server stands in its records.
    pub(super) fn learn_from(&mut self, record: &Record) {
        let (covered, offset) = (record.covered, record.offset);
        let (account, actor) = (record.account.clone(), record.actor.clone());
        let Some(server) = self.server_at(&record.url) else { return };
        server.known |= covered;
        server.offset = server.offset.or(offset);
        if let (Some(tag), None) = (actor, server.actor(account.as_deref())) {
            server.learn_actor(account.as_deref(), &tag);
        }
    }
}

/// An RFC 9651 string.
fn quoted(key: &str) -> String {
    let mut text = String::with_capacity(key.len() + 2);
    text.push('"');
    for character in key.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
    text
}
