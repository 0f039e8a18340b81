//! A claim's own task: claim, handler, deadline, and the one write that ends the attempt.
//!
//! The task that runs the handler also makes the claim, so that no hang-up can fall between the two; the
//! request's future only waits for what this task says.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::TRAILER;
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use samekey_core::answer::{Head, Meaning, meaning, panicked, said};
use samekey_core::claim::{Event, Fence, Finish, Reason, Record, Say, State, Terminal};
use samekey_core::problem::Code;
use samekey_core::receipt::{Receipt, Word};
use samekey_core::{Actor, Keep, Key, Policy, Timestamp};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument;

use super::answer;
use super::capture::Captured;
use super::record::Thread;
use super::{Failure, Running, Shared};
use crate::observe;
use crate::problem::Problem;
use crate::store::{Applied, Ask, Found, Hold, RecordId, StoreError, StoredResponse, Told};

/// Between two tries to store how an attempt ended.
const FINISH_RETRY: Duration = Duration::from_millis(100);

/// What the request's future hears.
pub(crate) enum Heard<H> {
    /// The answer to send.
    Answer(Response),
    /// Nothing ran; the handler comes back.
    Told(Box<(Told, H)>),
    /// Nothing ran, because the store refused.
    Refused(Problem),
}

/// The claim of one delivery and everything its end needs.
pub(crate) struct Attempt {
    shared: Arc<Shared>,
    id: RecordId,
    operation: String,
    configured: bool,
    created_at: Timestamp,
    thread: Thread,
    request_id: Option<Arc<str>>,
    fence: Fence,
    policy: Arc<Policy>,
    key: Key,
    hold: Hold,
    deadline: Instant,
    passes_405: bool,
}

/// Starts the handler under a claim.
pub(crate) trait Start: Sized + Send + 'static {
    /// Calls the handler in a task of its own, so that a panic ends that task only. The receiver hears the answer.
    /// `drop_at` bounds what a streaming handler may go on doing for a client that hung up.
    fn start(self, running: Running, drop_at: Instant) -> (oneshot::Receiver<Captured>, JoinHandle<()>);
}

/// Claims, runs and finishes.
pub(crate) async fn run<H: Start>(
    shared: Arc<Shared>,
    ask: Ask,
    thread: Thread,
    passes_405: bool,
    handler: H,
    heard: oneshot::Sender<Heard<H>>,
) {
    let (asked_at, asked) = (Instant::now(), shared.store.clock().monotonic());
    let claimed = thread.store(shared.store.deliver(ask.clone())).instrument(observe::claim_span(&ask.operation));
    let told = match claimed.await {
        Ok(told) => told,
        Err(error) => return drop(heard.send(Heard::Refused(error.into()))),
    };
    let (Say::Run(fence), Some(found)) = (told.say, told.found.as_ref()) else {
        return drop(heard.send(Heard::Told(Box::new((told, handler)))));
    };
    thread.claimed(found.id);
    suspect(&shared, &ask, &thread, found.id);
    let running = Running::new(&ask, found, fence, &shared.store);
    let hold = shared.store.hold(found.id, fence, &ask.policy, asked);
    // The store's deadline is later than this one: it read its clock after we read ours.
    let deadline = asked_at + ask.policy.timeout;
    let attempt = Attempt {
        id: found.id,
        operation: found.operation.clone(),
        configured: found.configured,
        created_at: found.record.created_at,
        thread,
        request_id: ask.request_id,
        shared,
        passes_405,
        fence,
        policy: ask.policy,
        key: ask.key,
        hold,
        deadline,
    };
    if asked_at.elapsed() > attempt.policy.lease / 3
        && let Err(refusal) = attempt.prove().await
    {
        return drop(heard.send(Heard::Answer(refusal.into_response())));
    }
    let _runs = observe::in_flight(&attempt.thread.label);
    let upstream = observe::upstream_span(&attempt.operation, attempt.fence);
    let (captured, task) = upstream.in_scope(|| handler.start(running, attempt.drop_at()));
    let mut heard = Some(heard);
    attempt
        .supervise(captured, task, &mut |response| {
            if let Some(heard) = heard.take() {
                // A client that hung up hears nothing; the record holds the answer for its retry.
                let _ = heard.send(Heard::Answer(response));
            }
        })
        .await;
}

/// Tells of a command that looks like a retry under a new key.
fn suspect(shared: &Shared, ask: &Ask, thread: &Thread, record: RecordId) {
    if ask.actor == Actor::anonymous() || shared.actor.key_is_the_secret() || !thread.has_body {
        return;
    }
    let store = &shared.store;
    let ran = shared.suspects.ran(&ask.actor, &ask.operation, &ask.fingerprint, &ask.key, store.clock().monotonic());
    if let Some(ago) = ran {
        let key_hash = store.log_hash("key", ask.key.expose());
        let actor_hash = store.log_hash("actor", ask.actor.stored());
        observe::suspected_duplicate(&thread.label, &ask.operation, record, &key_hash, &actor_hash, ago);
    }
}

impl Attempt {
    /// Before this moment the handler must be gone: from then on the record may be settled from outside.
    fn drop_at(&self) -> Instant {
        let probe_after = self.policy.probe_after();
        // Nobody calls the claim lapsed before its last proof is a lease old; that moment may have passed already.
        let proved_ago = self.shared.store.clock().monotonic().saturating_sub(self.hold.proved_at());
        let now = Instant::now();
        let lapses = now.checked_sub(proved_ago).unwrap_or(now) + self.policy.lease;
        lapses.min(self.deadline) + probe_after.saturating_sub((probe_after / 10).min(Duration::from_secs(1)))
    }

    async fn prove(&self) -> Result<(), Problem> {
        match self.shared.store.apply(self.id, Arc::clone(&self.policy), Event::Start(self.fence), None).await {
            Ok(Applied { refused: None, .. }) => Ok(()),
            Ok(Applied { record, .. }) => Err(self.now_uncertain(record.as_ref())),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the handler up to the deadline, tells the caller, and goes on listening for a late answer.
    async fn supervise(
        self,
        mut captured: oneshot::Receiver<Captured>,
        task: JoinHandle<()>,
        tell: &mut (impl FnMut(Response) + Send),
    ) {
        let began = Instant::now();
        let mut until = self.deadline;
        let outcome = tokio::select! {
            outcome = &mut captured => outcome,
            () = sleep_until(self.deadline) => {
                // One try: the caller must not wait for a store that fails, and past its deadline the claim lapses
                // into the same state by itself.
                let applied = self.finish(Finish::Uncertain(Reason::Deadline), None, until).await;
                until = self.drop_at();
                tell(self.timed_out(applied.ok().and_then(|applied| applied.record).as_ref()));
                tokio::select! {
                    outcome = &mut captured => outcome,
                    () = sleep_until(until) => {
                        task.abort();
                        observe::handled(&self.thread.label, None, began.elapsed());
                        return;
                    }
                }
            }
        };
        let status = outcome.as_ref().ok().and_then(Captured::status);
        observe::handled(&self.thread.label, status, began.elapsed());
        tell(match outcome {
            Ok(captured) => self.conclude(captured, until).await,
            Err(_) => match task.await {
                Err(error) if error.is_panic() => self.conclude_panic(until).await,
                _ => self.conclude_uncertain(Reason::NoAnswer, "the handler ended without an answer", until).await,
            },
        });
    }

    /// The answer's meaning, the one write, and what the caller hears of it.
    async fn conclude(&self, captured: Captured, until: Instant) -> Response {
        let (parts, whole, body) = match captured {
            Captured::Broken(why) => {
                return self
                    .conclude_uncertain(Reason::NoAnswer, &format!("its answer broke off ({why})"), until)
                    .await;
            }
            Captured::Failed(Failure::Unknown { detail }) => {
                return self
                    .conclude_uncertain(Reason::NoAnswer, &format!("it gave no answer ({detail})"), until)
                    .await;
            }
            Captured::Failed(Failure::NotSent { detail }) => return self.conclude_not_sent(detail, until).await,
            Captured::Whole(mut parts, bytes, trailers) => {
                if let Some(trailers) = &trailers {
                    announce(trailers, &mut parts.headers);
                }
                let body = with_trailers(bytes.clone(), trailers);
                (parts, Some(bytes), body)
            }
            Captured::Streamed(parts, body) => (parts, None, body),
        };
        if self.passes_405 && parts.status == StatusCode::METHOD_NOT_ALLOWED {
            let applied = self.finish(Finish::Released { not_before: None }, None, until).await;
            return self.settled(applied, |_| answer::first(parts, body, Receipt::of(Word::NotCovered))).await;
        }
        let now = self.shared.store.now();
        let said = parts.headers.get(crate::names::OUTCOME).and_then(|value| {
            let said = said(value.as_bytes());
            if said.is_none() {
                tracing::warn!(event = "outcome_unknown", value = ?value, "Samekey-Outcome is none of terminal, released, uncertain");
            }
            said
        });
        let head = Head { status: parts.status.as_u16(), retry_after: answer::retry_after(&parts, now), said };
        match meaning(head, &self.policy) {
            Meaning::Uncertain => {
                let why = format!("the service answered {}, which does not tell", parts.status.as_u16());
                self.conclude_uncertain(Reason::Status, &why, until).await
            }
            Meaning::Released { not_before } => {
                let not_before = not_before.map(|after| now + after);
                let applied = self.finish(Finish::Released { not_before }, None, until).await;
                self.settled(applied, |receipt| answer::first(parts, body, receipt)).await
            }
            meaning @ (Meaning::Completed | Meaning::Failed { .. }) => {
                let reason = (meaning == Meaning::Failed { effect_unknown: true }).then_some(Reason::ServerError);
                self.conclude_terminal(parts, whole, body, reason, until).await
            }
        }
    }

    async fn conclude_terminal(
        &self,
        parts: Parts,
        whole: Option<Bytes>,
        body: Body,
        reason: Option<Reason>,
        until: Instant,
    ) -> Response {
        let full = whole.as_ref().filter(|_| self.policy.keep == Keep::Full);
        let terminal = Terminal {
            status: Some(parts.status.as_u16()),
            reason,
            result_id: answer::result_id(&parts, whole.as_ref(), &self.policy),
            has_response: full.is_some(),
        };
        // Without its body an answer keeps its headers: `Location` goes with `response_not_stored`.
        let stored = answer::stored(&parts, full.unwrap_or(&Bytes::new()), &self.policy);
        let applied = self.finish(Finish::Terminal(terminal), Some(stored), until).await;
        self.settled(applied, |receipt| answer::first(parts, body, receipt)).await
    }

    async fn conclude_panic(&self, until: Instant) -> Response {
        tracing::error!(event = "handler_panicked", operation = self.operation, "the handler panicked");
        let (parts, body) = answer::panicked().into_parts();
        match panicked(&self.policy) {
            Meaning::Released { .. } => {
                let applied = self.finish(Finish::Released { not_before: None }, None, until).await;
                self.settled(applied, |receipt| answer::first(parts, body, receipt)).await
            }
            _ => {
                let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                let body = Body::from(bytes.clone());
                self.conclude_terminal(parts, Some(bytes), body, Some(Reason::Panic), until).await
            }
        }
    }

    async fn conclude_not_sent(&self, detail: String, until: Instant) -> Response {
        let applied = self.finish(Finish::Released { not_before: None }, None, until).await;
        self.settled(applied, |receipt| {
            let problem =
                Problem::new(Code::UpstreamUnreachable, format!("Nothing was sent to the service: {detail}."));
            problem.retry_after(Duration::from_secs(1)).receipt(receipt).into_response()
        })
        .await
    }

    async fn conclude_uncertain(&self, reason: Reason, why: &str, until: Instant) -> Response {
        let applied = self.finish(Finish::Uncertain(reason), None, until).await;
        self.tell_uncertain(reason, why);
        self.settled(applied, |receipt| self.uncertain(why).receipt(receipt).into_response()).await
    }

    /// Writes how the attempt ended. What cannot be stored is held and tried until the given moment.
    async fn finish(
        &self,
        finish: Finish,
        response: Option<StoredResponse>,
        until: Instant,
    ) -> Result<Applied, StoreError> {
        let event = Event::Finish(self.fence, finish);
        let span = observe::finish_span(&self.operation, self.fence, self.id);
        loop {
            let store = &self.shared.store;
            let asked = store.apply(self.id, Arc::clone(&self.policy), event.clone(), response.clone());
            match self.thread.store(asked).instrument(span.clone()).await {
                Err(error) if Instant::now() + FINISH_RETRY < until && !error.is_closed() => {
                    tracing::error!(event = "store_error", record = self.id.0, error = %error, "the end of an attempt waits for the store");
                    sleep(FINISH_RETRY).await;
                }
                result => return result,
            }
        }
    }

    /// What the caller hears once the end is written: what the record says now, never more.
    async fn settled(&self, applied: Result<Applied, StoreError>, own: impl FnOnce(Receipt) -> Response) -> Response {
        match applied {
            Ok(Applied { record: Some(record), refused: None }) if record.state != State::Uncertain => {
                own(record.receipt())
            }
            Ok(Applied { record, refused: None }) => match &record {
                // Uncertain after all: an effect is open, or an earlier attempt may have had its effect.
                Some(record) if record.reason.is_some_and(|reason| matches!(reason, Reason::EarlierAttempt)) => {
                    self.now_uncertain(Some(record)).into_response()
                }
                Some(record) => own(record.receipt()),
                None => self.now_uncertain(None).into_response(),
            },
            Ok(Applied { record, refused: Some(_) }) => {
                observe::stale_finish(&observe::StaleFinish {
                    label: &self.thread.label,
                    operation: &self.operation,
                    record: self.id,
                    attempt: self.fence.attempt,
                    key_hash: &self.key_hash(),
                    state: record.as_ref().map(|record| record.state.as_str()),
                });
                self.settled_otherwise(record).await
            }
            Err(error) => {
                tracing::error!(event = "store_error", record = self.id.0, error = %error, "the end of an attempt could not be stored");
                self.uncertain("its answer could not be stored").into_response()
            }
        }
    }

    /// Somebody else ended the record: its answer is the only one that was or will be given.
    async fn settled_otherwise(&self, record: Option<Record>) -> Response {
        let Some(record) = record else { return self.now_uncertain(None).into_response() };
        match record.state {
            State::Completed | State::Failed | State::Expired => match self.shared.store.response(self.id).await {
                Ok(Some(stored)) if record.has_response => answer::replay(&record, stored),
                _ => {
                    let (operation, configured) = (self.operation.clone(), self.configured);
                    let found = Some(Found { id: self.id, operation, configured, record });
                    let told =
                        Told { say: Say::Replay, found, response: None, profile: None, now: self.shared.store.now() };
                    answer::refusal(Code::ResponseNotStored, &told, &self.key, &self.policy).into_response()
                }
            },
            State::InProgress | State::Released | State::Uncertain => self.now_uncertain(Some(&record)).into_response(),
        }
    }

    fn key_hash(&self) -> String {
        self.shared.store.log_hash("key", self.key.expose())
    }

    fn tell_uncertain(&self, reason: Reason, why: &str) {
        observe::uncertain(&observe::Uncertain {
            operation: &self.operation,
            record: self.id,
            attempt: self.fence.attempt,
            key_hash: Some(&self.key_hash()),
            request_id: self.request_id.as_deref(),
            trace_id: self.thread.trace_id.as_deref(),
            reason: reason.as_str(),
            age: self.shared.store.now().since(self.created_at),
            why,
        });
    }

    fn uncertain(&self, why: &str) -> Problem {
        let hint = "It will not run again by itself. Do not send the command with another key before it is settled.";
        Problem::new(Code::OutcomeUncertain, format!("Whether the command took effect is unknown: {why}. {hint}"))
            .about(&self.operation)
    }

    fn now_uncertain(&self, record: Option<&Record>) -> Problem {
        let problem = self.uncertain("the claim was lost while it ran");
        match record {
            Some(record) => problem.receipt(record.receipt()),
            None => problem,
        }
    }

    fn timed_out(&self, record: Option<&Record>) -> Response {
        self.tell_uncertain(Reason::Deadline, "no answer within the timeout");
        let detail = format!(
            "No whole answer within {} ms. A late answer will be kept; send the same request with the same key to get it.",
            self.policy.timeout.as_millis()
        );
        let problem = Problem::new(Code::UpstreamTimeout, detail).about(&self.operation);
        match record {
            Some(record) => problem.receipt(record.receipt()),
            None => problem,
        }
        .into_response()
    }
}

/// HTTP/1.1 sends what was announced.
fn announce(trailers: &HeaderMap, headers: &mut HeaderMap) {
    headers.remove(TRAILER);
    for name in trailers.keys() {
        headers.append(TRAILER, name.clone().into());
    }
}

/// Without a length where trailers follow, or HTTP/1.1 would have no place for them.
pub(crate) fn with_trailers(bytes: Bytes, trailers: Option<HeaderMap>) -> Body {
    match trailers {
        None => Body::from(bytes),
        Some(trailers) => {
            let frames = [Frame::data(bytes), Frame::trailers(trailers)].map(Ok::<_, std::convert::Infallible>);
            Body::new(StreamBody::new(futures_util::stream::iter(frames)))
        }
    }
}

/// The span of the request goes with every task that is made for it.
pub(crate) fn spawn(
    tracker: &tokio_util::task::TaskTracker,
    future: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    tracker.spawn(future.in_current_span())
}
