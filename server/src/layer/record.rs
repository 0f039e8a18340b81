//! One line in the log for every covered request: who, what, which decision, how long. Never a key, a payload
//! or a credential: keyed hashes stand for key and actor.

use std::sync::Arc;

use axum::response::Response;
use http::HeaderValue;
use http::request::Parts;
use samekey_core::problem::Code;
use samekey_core::{Actor, Key};
use tokio::time::Instant;

use super::Shared;
use crate::names;
use crate::problem::{self, Place};
use crate::store::Told;

/// What is known of a request so far. Dropped before it is finished, its client hung up.
pub(crate) struct Seen {
    shared: Arc<Shared>,
    arrived: Instant,
    answered: bool,
    method: http::Method,
    operation: String,
    request_id: HeaderValue,
    actor: Option<Actor>,
    key: Option<Key>,
    waited: bool,
    record: Option<i64>,
}

impl Seen {
    pub(crate) fn new(shared: &Arc<Shared>, parts: &Parts, request_id: &HeaderValue, operation: &str) -> Self {
        Self {
            shared: Arc::clone(shared),
            arrived: Instant::now(),
            answered: false,
            method: parts.method.clone(),
            operation: operation.to_owned(),
            request_id: request_id.clone(),
            actor: None,
            key: None,
            waited: false,
            record: None,
        }
    }

    pub(crate) fn actor(&mut self, actor: &Actor) {
        self.actor = Some(actor.clone());
    }

    pub(crate) fn key(&mut self, key: &Key) {
        self.key = Some(key.clone());
    }

    pub(crate) fn waited(&mut self) {
        self.waited = true;
    }

    pub(crate) fn told(&mut self, told: &Told) {
        self.record = told.found.as_ref().map(|found| found.id.0);
    }

    /// Adds what every covered answer carries, and writes the line.
    pub(crate) fn finish(mut self, response: &mut Response) {
        let shared = Arc::clone(&self.shared);
        let code = problem::finish(response, &Place { prefix: &shared.prefix, operation: Some(&self.operation) });
        let status = response.status().as_u16();
        let headers = response.headers_mut();
        headers.entry(names::REQUEST_ID).or_insert(self.request_id.clone());
        // A 401 says that nobody is signed in, also where the service behind says it.
        if status != 401
            && let Some(tag) = self.actor.as_ref().and_then(|actor| shared.actor.tag(actor, &shared.store))
        {
            headers.insert(names::ACTOR, tag);
        }
        let state = headers.get(names::STATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let decision = match (headers.contains_key(names::REPLAYED), self.waited, code) {
            (true, true, _) => "waited",
            (true, false, _) => "replayed",
            (false, _, Some(_)) => "refused",
            (false, _, None) => "claimed",
        };
        self.answered = true;
        self.log(decision, state, code, Some(status));
    }

    fn log(&self, decision: &str, state: &str, code: Option<Code>, status: Option<u16>) {
        let secret = &self.shared.store;
        tracing::info!(
            event = "request",
            request_id = self.request_id.to_str().unwrap_or("-"),
            operation = self.operation,
            decision,
            state,
            code = code.map(Code::as_str),
            record = self.record,
            key_hash = self.key.as_ref().map(|key| secret.log_hash("key", key.expose())),
            actor_hash = self.actor.as_ref().map(|actor| secret.log_hash("actor", actor.stored())),
            method = %self.method,
            status,
            duration_ms = u64::try_from(self.arrived.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
    }
}

impl Drop for Seen {
    /// What it began goes on without it; the record tells how that ends.
    fn drop(&mut self) {
        if !self.answered {
            self.log("hung_up", "", None, None);
        }
    }
}
