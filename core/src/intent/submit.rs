//! Which intent a call belongs to.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use super::action::Rejection;
use super::address::{Address, belongs};
use super::calls::Call;
use super::config::{Duplicates, Operation};
use super::engine::Engine;
use super::event::{Submit, Until};
use super::held::{Held, Op};
use super::record::{Millis, Pause, Payload, Record};
use super::state::State;
use crate::fingerprint::{Payload as Printed, fingerprint};
use crate::key::Key;

/// An equal call so soon after the answer is the second half of a double click.
const DOUBLE_CLICK: Millis = 1_000;
/// 64 KiB: most answers to commands are far shorter, and a store of a thousand of these still fits every quota.
const KEEP_RESPONSE: u32 = 65_536;

/// Headers that are credentials: what is stored would be found by whoever finds the device.
const SECRET: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-xsrf-token",
];

impl Engine {
    /// The operation of a request, if `fetch` makes an intent of it: because it carries a key, names its operation or
    /// slot, or because the configuration says so.
    pub fn covers(&self, method: &str, url: &str, headers: &[(String, String)]) -> bool {
        let named = |header: &(String, String)| {
            matches!(header.0.as_str(), "idempotency-key" | "samekey-slot" | "samekey-operation")
        };
        let Some(address) = Address::parse(url).filter(|_| may_repeat(method)) else { return false };
        headers.iter().any(named) || self.operation(None, method, address).is_some()
    }

    /// The settings of an operation, by its name or by what it matches.
    fn operation(&self, name: Option<&str>, method: &str, address: Address<'_>) -> Option<usize> {
        let base = self.config.base.as_deref();
        let fits = |operation: &Operation| match name {
            Some(name) => operation.name == name,
            None => belongs(operation, base, method, address),
        };
        self.config.operations.iter().position(fits)
    }

    pub(super) fn submit(&mut self, mut submit: Box<Submit>) {
        let (record, duplicates) = match self.candidate(&mut submit) {
            Ok(candidate) => candidate,
            Err(code) => return self.reject(submit.call, code, None),
        };
        let same = |other: &Record| {
            other.account == record.account && other.operation == record.operation && other.print == record.print
        };
        let mine = |held: &&Held| held.record.account == record.account && !held.record.forgotten && !held.dropped;
        if let Some(key) = &record.key {
            let theirs = |other: &Record| other.operation == record.operation && other.key.as_ref() == Some(key);
            if let Some(held) = self.held.iter().filter(mine).find(|held| theirs(&held.record)) {
                let (equal, id) = (same(&held.record), held.record.id.clone());
                return match equal {
                    true => self.call(&submit, id, true),
                    false => self.reject(submit.call, Rejection::Conflict, Some(id)),
                };
            }
        }
        let fresh = |record: &Record| match record.state {
            State::Done | State::Failed => {
                record.settled_at.is_some_and(|at| (0..=DOUBLE_CLICK).contains(&self.now.saturating_sub(at)))
            }
            state => !state.is_settled(),
        };
        // The newest: behind one that is being closed stands the one that is wanted.
        let candidates = || self.held.iter().enumerate().rev().filter(|(_, held)| mine(held) && fresh(&held.record));
        let equal = candidates().find(|(_, held)| held.record.slot == record.slot && same(&held.record));
        if let Some((_, held)) = equal.filter(|(_, held)| !held.record.closing) {
            let slot = record.slot.is_some();
            let id = held.record.id.clone();
            match duplicates {
                _ if submit.another && !slot => {}
                Duplicates::Join => return self.call(&submit, id, true),
                Duplicates::Reject => return self.reject(submit.call, Rejection::Duplicate, Some(id)),
                Duplicates::Allow if slot => return self.call(&submit, id, true),
                Duplicates::Allow => {}
            }
        }
        let open = |held: &Held| held.record.slot.is_some() && !held.record.state.is_settled();
        let first = candidates().find(|(_, held)| open(held) && held.record.slot == record.slot);
        match first.map(|(at, held)| (at, held.record.maybe_sent())) {
            Some((at, false)) => self.push(at, Op::Replace(submit)),
            Some((at, true)) => {
                let after = Some(self.held[at].record.id.clone());
                self.create(&submit, Record { after, ..record });
                self.push(at, Op::Cancel(None));
            }
            None => self.create(&submit, record),
        }
    }

    fn create(&mut self, submit: &Submit, record: Record) {
        let id = record.id.clone();
        self.held.push(Held::new(record, None));
        self.call(submit, id, false);
        self.push(self.held.len() - 1, Op::Create);
    }

    /// A call belongs to this intent.
    pub(super) fn call(&mut self, submit: &Submit, id: String, joined: bool) {
        let patience = match submit.until {
            Until::Patience(milliseconds) => Some(Pause::new(self.now, milliseconds.into())),
            _ => None,
        };
        let call = Call { call: submit.call, id, joined, until: submit.until, patience };
        let at = self.find(&call.id);
        self.calls.push(call);
        if let Some(at) = at {
            self.answer_calls(at);
        }
    }

    /// An edited payload takes the place of one that was never sent.
    pub(super) fn replace(&mut self, at: usize, op: Op) {
        let Op::Replace(mut submit) = op else { return };
        let record = &self.held[at].record;
        if record.maybe_sent() || record.state.is_settled() || record.slot != submit.slot {
            // It was sent meanwhile: the call is looked at as if it came now.
            return self.submit(submit);
        }
        let Ok((fresh, _)) = self.candidate(&mut submit) else { return };
        let old = self.held[at].record.clone();
        let next = Record {
            id: old.id.clone(),
            created_at: old.created_at,
            after: old.after,
            // Nobody else's delivery may be cut short.
            lease: old.lease,
            ..fresh
        };
        self.write(at, next, Op::Replace(submit));
    }

    /// The record that a call makes if it belongs to no other.
    fn candidate(&mut self, submit: &mut Submit) -> Result<(Record, Duplicates), Rejection> {
        let mut take = |name: &str| {
            let found = submit.headers.iter().position(|header| header.0.eq_ignore_ascii_case(name))?;
            Some(submit.headers.remove(found).1)
        };
        let (key, slot, name) = (take("idempotency-key"), take("samekey-slot"), take("samekey-operation"));
        submit.slot = submit.slot.take().or(slot);
        submit.operation = submit.operation.take().or(name);
        if let Some(line) = key {
            let key = Key::parse(line.as_bytes()).map_err(|_| Rejection::InvalidOption)?;
            submit.key = Some(key.expose().into());
        }
        if submit.key.as_ref().is_some_and(|key| key.parse::<Key>().is_err()) {
            return Err(Rejection::InvalidOption);
        }
        for (name, _) in &mut submit.headers {
            name.make_ascii_lowercase();
        }
        if submit.headers.iter().any(|header| SECRET.contains(&header.0.as_str())) {
            return Err(Rejection::SecretHeader);
        }
        let address = Address::parse(&submit.url).filter(|_| may_repeat(&submit.method));
        let address = address.ok_or(Rejection::InvalidOption)?;
        let named = self.operation(submit.operation.as_deref(), &submit.method, address);
        let operation = named.map(|at| &self.config.operations[at]);
        let profile = &self.profiles[named.unwrap_or(self.config.operations.len())];
        let header =
            |name: &str| submit.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_bytes());
        let headers: alloc::vec::Vec<_> =
            submit.headers.iter().map(|header| (header.0.as_str(), header.1.as_bytes())).collect();
        let printed = Printed {
            path_params: &[&submit.method, address.origin, address.path],
            query: address.query,
            content_type: header("content-type"),
            content_encoding: header("content-encoding"),
            headers: &headers,
            body: submit.body.as_deref().unwrap_or_default(),
        };
        let print = *fingerprint(&printed, profile).digest();
        let automatic = || [submit.method.as_str(), " ", address.path].concat();
        let name = submit.operation.clone().or_else(|| operation.map(|operation| operation.name.clone()));
        let covered = |held: &Held| {
            let other = &held.record;
            other.covered
                && other.method == submit.method
                && Address::parse(&other.url).is_some_and(|theirs| {
                    theirs.origin == address.origin
                        && (theirs.path == address.path || name.as_ref() == Some(&other.operation))
                })
        };
        let retry = operation.map_or(self.config.retry, |operation| operation.retry.or(self.config.retry));
        let record = Record {
            id: self.chance.key(self.now).expose().to_string(),
            account: submit.account.clone(),
            operation: name.clone().unwrap_or_else(automatic),
            method: submit.method.clone(),
            // What stands behind `#` is for the page and is not sent.
            url: submit.url.split('#').next().unwrap_or_default().into(),
            slot: submit.slot.clone(),
            label: submit.label.clone(),
            meta: submit.meta.clone(),
            print,
            payload: Payload {
                headers: submit.headers.clone(),
                body: submit.body.clone(),
                credentials: submit.credentials.clone(),
            },
            trust: operation.map(|operation| operation.receipt).unwrap_or_default(),
            retry,
            keep_response: operation.and_then(|operation| operation.keep_response).unwrap_or(KEEP_RESPONSE),
            created_at: self.now,
            key: submit.key.clone(),
            covered: self.held.iter().any(covered),
            ..Record::default()
        };
        Ok((record, operation.map(|operation| operation.duplicates).unwrap_or_default()))
    }
}

/// Commands. What only reads needs no key, and a tunnel has no outcome.
fn may_repeat(method: &str) -> bool {
    !matches!(method, "" | "GET" | "HEAD" | "OPTIONS" | "TRACE" | "CONNECT")
}
