//! What is told of every covered request once it is answered: who, what, which decision, how long. Never a key, a
//! payload or a credential: keyed hashes stand for key and actor.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::response::Response;
use http::HeaderValue;
use http::request::Parts;
use samekey_core::problem::Code;
use samekey_core::select::Profile;
use samekey_core::{Actor, Key};
use tokio::time::Instant;
use tracing::Span;

use super::{Route, Shared};
use crate::names;
use crate::observe::{self, Decision, Label, Unprotected};
use crate::problem::{self, Place};
use crate::store::{RecordId, Told};

/// What the task of a delivery has in common with the request.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) label: Label,
    pub(crate) trace_id: Option<Arc<str>>,
    pub(crate) has_body: bool,
    told: Arc<ToldByTask>,
}

/// What the task says while the request waits for it.
#[derive(Debug, Default)]
struct ToldByTask {
    store_micros: AtomicU64,
    record: OnceLock<RecordId>,
}

impl Thread {
    /// Adds the time that the store took.
    pub(crate) async fn store<T>(&self, asked: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = asked.await;
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.told.store_micros.fetch_add(micros, Ordering::Relaxed);
        answer
    }

    /// It claimed this record.
    pub(crate) fn claimed(&self, record: RecordId) {
        let _ = self.told.record.set(record);
    }
}

/// What is known of a request so far. Dropped before it is finished, its client hung up.
pub(crate) struct Seen {
    shared: Arc<Shared>,
    pub(crate) thread: Thread,
    span: Span,
    arrived: Instant,
    answered: bool,
    method: http::Method,
    operation: Cow<'static, str>,
    profile: Arc<Profile>,
    request_id: HeaderValue,
    actor: Option<Actor>,
    key: Option<Key>,
    ran: bool,
    waits: Option<Instant>,
    waited: Option<Duration>,
    record: Option<RecordId>,
}

impl Seen {
    pub(crate) fn new(shared: &Arc<Shared>, parts: &Parts, request_id: &HeaderValue, route: &Route) -> Self {
        Self {
            shared: Arc::clone(shared),
            thread: Thread {
                label: observe::label(route.configured, &route.operation),
                trace_id: observe::trace_id(&parts.headers).map(Arc::from),
                has_body: false,
                told: Arc::default(),
            },
            span: observe::request_span(&route.operation),
            arrived: Instant::now(),
            answered: false,
            method: parts.method.clone(),
            operation: route.operation.clone(),
            profile: Arc::clone(&route.profile),
            request_id: request_id.clone(),
            actor: None,
            key: None,
            ran: false,
            waits: None,
            waited: None,
            record: None,
        }
    }

    /// The span of the request.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn actor(&mut self, actor: &Actor) {
        self.actor = Some(actor.clone());
    }

    pub(crate) fn key(&mut self, key: &Key) {
        self.key = Some(key.clone());
    }

    /// From here on it may run.
    pub(crate) fn asks_to_run(&mut self, asks: bool) {
        self.ran = asks;
    }

    pub(crate) fn waits(&mut self) {
        self.waits = Some(Instant::now());
    }

    pub(crate) fn waited(&mut self) {
        self.waited = self.waits.map(|since| since.elapsed());
    }

    pub(crate) fn told(&mut self, told: &Told) {
        self.record = told.found.as_ref().map(|found| found.id);
    }

    /// Adds what every covered answer carries, and tells of it.
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
        let receipt = headers.get(names::STATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let decision = match (headers.contains_key(names::REPLAYED), self.waits, code) {
            (true, Some(_), _) => Decision::Waited,
            (true, None, _) => Decision::Replayed,
            (false, _, Some(_)) => Decision::Refused,
            (false, _, None) => Decision::Claimed,
        };
        if code == Some(Code::ActorRequired) {
            observe::unprotected(&self.thread.label, Unprotected::NoActor);
        }
        self.answered = true;
        self.tell(decision, decision.as_str(), receipt, Some((status, code)));
    }

    fn tell(&mut self, decision: Decision, word: &str, receipt: &str, answer: Option<(u16, Option<Code>)>) {
        let duration = self.arrived.elapsed();
        observe::answered(&self.thread.label, decision, answer.map(|(_, code)| code), duration);
        if !observe::tells_of_requests() {
            return;
        }
        let (state, parameters) = receipt.split_once(';').unwrap_or((receipt, ""));
        let attempt = parameters.split(';').find_map(|parameter| parameter.strip_prefix("attempt=")?.parse().ok());
        if self.waited.is_none() {
            self.waited();
        }
        let (secret, told) = (&self.shared.store, &self.thread.told);
        let key_hash = self.key.as_ref().map(|key| secret.log_hash("key", key.expose()));
        let actor_hash = self.actor.as_ref().map(|actor| secret.log_hash("actor", actor.stored()));
        let request = observe::Request {
            request_id: self.request_id.to_str().unwrap_or("-"),
            trace_id: self.thread.trace_id.as_deref(),
            operation: &self.operation,
            decision: word,
            state,
            attempt,
            code: answer.and_then(|(_, code)| code),
            record: self.record.or_else(|| told.record.get().copied()),
            key_hash: key_hash.as_deref(),
            actor_hash: actor_hash.as_deref(),
            method: self.method.as_str(),
            route: self.profile.template(),
            status: answer.map(|(status, _)| status),
            duration,
            wait: self.waited.unwrap_or_default(),
            store: Duration::from_micros(told.store_micros.load(Ordering::Relaxed)),
        };
        observe::request(&self.span, &request);
    }
}

impl Drop for Seen {
    /// What it began goes on without it; the record tells how that ends.
    fn drop(&mut self) {
        if !self.answered {
            let decision = match (self.ran, self.waits) {
                (true, _) => Decision::Claimed,
                (false, Some(_)) => Decision::Waited,
                (false, None) => Decision::Refused,
            };
            self.tell(decision, "hung_up", "", None);
        }
    }
}
