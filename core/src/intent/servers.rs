//! What was learned of the servers that intents go to: their clocks, their actors' tags, where their routes lie, and
//! what their contracts promise. Kept in memory only; what an intent needs of it stands in its record.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::address::same_segments;
use super::proof::Finding;
use super::record::{Millis, Record};
use crate::json::{Document, Value};

/// Where the routes lie unless a status link says otherwise.
const PREFIX: &str = "/.well-known/samekey";
/// How long an answer without a contract is taken for the last word.
const ASK_CONTRACT_AGAIN: Millis = 10 * 60_000;

/// One origin.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) origin: String,
    /// How far its clock is ahead of this device's.
    pub(super) offset: Option<Millis>,
    /// The newest time on its clock.
    pub(super) seen: Option<Millis>,
    /// The prefix of its routes, as a status link showed it.
    pub(super) prefix: Option<String>,
    /// A receipt was seen from it.
    pub(super) known: bool,
    /// Tags of accounts.
    pub(super) actors: Vec<(Option<String>, String)>,
    /// When its contract was asked for.
    pub(super) contract_asked: Option<Millis>,
    contract: Vec<Terms>,
}

/// What a contract promises of one operation.
#[derive(Clone, Debug)]
struct Terms {
    /// Nothing in the terms for requests that no named operation takes.
    name: Option<String>,
    method: Option<String>,
    path: Option<String>,
    budget: Option<Millis>,
    remember: Option<Millis>,
}

impl Server {
    pub(super) fn new(origin: &str) -> Self {
        Self {
            origin: origin.into(),
            offset: None,
            seen: None,
            prefix: None,
            known: false,
            actors: Vec::new(),
            contract_asked: None,
            contract: Vec::new(),
        }
    }

    /// What an answer says beside its outcome. It was asked for at one moment and came at another.
    pub(super) fn heard(&mut self, finding: &Finding, asked_at: Millis, now: Millis, patience: Millis) {
        // Only what bears a receipt is believed: caches and portals have clocks of their own.
        if finding.word.is_none() {
            return;
        }
        self.known = true;
        let took = now.saturating_sub(asked_at);
        // If more time has passed than the exchange may take, the clock stepped meanwhile.
        if let Some(time) = finding.server_time.filter(|_| (0..=patience).contains(&took)) {
            self.offset = Some(time.saturating_sub(asked_at + took / 2));
            self.seen = self.seen.max(Some(time));
        }
    }

    pub(super) fn actor(&self, account: Option<&str>) -> Option<&str> {
        self.actors.iter().find(|(whose, _)| whose.as_deref() == account).map(|(_, tag)| tag.as_str())
    }

    pub(super) fn learn_actor(&mut self, account: Option<&str>, tag: &str) {
        self.actors.retain(|(whose, _)| whose.as_deref() != account);
        self.actors.push((account.map(String::from), tag.into()));
    }

    pub(super) fn route(&self, route: &str) -> String {
        let prefix = self.prefix.as_deref().unwrap_or(PREFIX);
        [self.origin.as_str(), prefix, route].concat()
    }

    /// A status link, absolute. One that leads to another origin would carry credentials there, and is ignored.
    pub(super) fn status_url(&mut self, link: &str) -> Option<String> {
        let path =
            if link.starts_with("//") { None } else { Some(link.strip_prefix(self.origin.as_str()).unwrap_or(link)) };
        let path = path.filter(|path| path.starts_with('/'))?;
        if let Some((prefix, _)) = path.split_once("/status?") {
            self.prefix = Some(prefix.into());
        }
        Some([self.origin.as_str(), path].concat())
    }

    pub(super) fn lacks_contract(&self, now: Millis) -> bool {
        let asked = |at: Millis| (at..at + ASK_CONTRACT_AGAIN).contains(&now);
        self.known && self.contract.is_empty() && !self.contract_asked.is_some_and(asked)
    }

    /// Reads the document at `contract`.
    pub(super) fn read_contract(&mut self, body: &[u8]) {
        let Ok(document) = Document::read(body) else { return };
        let root = document.root();
        let mut contract: Vec<Terms> = Vec::new();
        if let Some(operations) = root.member(b"operations") {
            let mut index = 0;
            while let Some(operation) = operations.element(index) {
                contract.push(terms(operation));
                index += 1;
            }
        }
        contract.extend(root.member(b"default").map(terms));
        self.contract = contract;
    }

    /// How long the server lets clients retry, and how long it remembers, for the operation of a record.
    pub(super) fn terms(&self, record: &Record, path: &str) -> (Option<Millis>, Option<Millis>) {
        let called = |terms: &&Terms| terms.name.as_ref() == Some(&record.operation);
        let routed = |terms: &&Terms| {
            terms.method.as_ref() == Some(&record.method)
                && terms.path.as_deref().is_some_and(|template| same_segments(template, path))
        };
        let all = &self.contract;
        let found = all.iter().find(called).or_else(|| all.iter().find(routed));
        let found = found.or_else(|| all.iter().find(|terms| terms.name.is_none()));
        found.map_or((None, None), |terms| (terms.budget, terms.remember))
    }
}

fn terms(operation: Value<'_>) -> Terms {
    let text = |name: &[u8]| {
        let text = operation.member(name)?.string()?;
        core::str::from_utf8(text).ok().map(ToString::to_string)
    };
    let time = |name: &[u8]| core::str::from_utf8(operation.member(name)?.literal()?).ok()?.parse().ok();
    Terms {
        name: text(b"name"),
        method: text(b"method"),
        path: text(b"path"),
        budget: time(b"retry_budget_ms"),
        remember: time(b"remember_ms"),
    }
}
