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
use samekey_core::answer::{Head, Meaning, meaning, panicked};
use samekey_core::claim::{Finish, Reason, Record, Terminal};
use samekey_core::problem::Code;
use samekey_core::receipt::{Receipt, Word};
use samekey_core::{Actor, Keep, OutcomeClass};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use super::answer;
use super::capture::Captured;
use super::record::Thread;
use super::{Failure, Running, Shared, running};
use crate::claim::{Asked, Attempt, CutShort, OPEN, Otherwise};
use crate::observe;
use crate::problem::Problem;
use crate::store::{Applied, Ask, Hold, Note, RecordId, StoreError, StoredResponse, Told};

/// What the request's future hears.
pub(crate) enum Heard<H> {
    /// The answer to send.
    Answer(Response),
    /// Nothing ran; the handler comes back.
    Told(Box<(Told, H)>),
    /// Nothing ran, because the store refused.
    Refused(Problem),
}

/// The claim of one delivery, while its handler runs.
struct Run {
    attempt: Arc<Attempt>,
    /// Renews the claim for as long as the handler may answer, and no longer: a handler's own tasks may outlive it.
    _hold: Hold,
    thread: Thread,
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
    let asked = Asked::now(&shared.store);
    let claimed = thread.store(shared.store.deliver(ask.clone())).instrument(observe::claim_span(&ask.operation));
    let told = match claimed.await {
        Ok(told) => told,
        Err(error) => return drop(heard.send(Heard::Refused(error.into()))),
    };
    let Some((attempt, hold)) = Attempt::won(&shared.store, &ask, &told, asked) else {
        return drop(heard.send(Heard::Told(Box::new((told, handler)))));
    };
    thread.claimed(attempt.id);
    suspect(&shared, &ask, &thread, attempt.id);
    if let Err(refusal) = attempt.prove_if_late(asked).await {
        return drop(heard.send(Heard::Answer(refusal.into_response())));
    }
    let _runs = observe::in_flight(&thread.label);
    let attempt = Arc::new(attempt);
    let upstream = observe::upstream_span(&attempt.operation, attempt.fence);
    let running = Running::new(Arc::clone(&attempt));
    let (captured, task) = upstream.in_scope(|| handler.start(running, attempt.drop_at()));
    let run = Run { attempt, _hold: hold, thread, passes_405 };
    let mut heard = Some(heard);
    run.supervise(captured, task, &mut |response| {
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

impl Run {
    /// Waits for the handler up to the deadline, tells the caller, and goes on listening for a late answer.
    async fn supervise(
        self,
        mut captured: oneshot::Receiver<Captured>,
        task: JoinHandle<()>,
        tell: &mut (impl FnMut(Response) + Send),
    ) {
        let began = Instant::now();
        let mut until = self.attempt.deadline;
        let outcome = tokio::select! {
            outcome = &mut captured => outcome,
            () = sleep_until(self.attempt.deadline) => {
                // One try: the caller must not wait for a store that fails, and past its deadline the claim lapses
                // into the same state by itself.
                let applied = self.finish(Finish::Uncertain(Reason::Deadline), None, until).await;
                until = self.attempt.drop_at();
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
            Captured::CutShort(how) => return self.conclude_cut_short(how, until).await,
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
        let now = self.attempt.store.now();
        let said = running::outcome_of(&parts);
        let head = Head { status: parts.status.as_u16(), retry_after: answer::retry_after(&parts, now), said };
        match meaning(head, &self.attempt.policy) {
            Meaning::Uncertain => {
                if said == Some(OutcomeClass::Uncertain) {
                    return self.conclude_uncertain(Reason::Holder, "whoever ran it says so", until).await;
                }
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
        let full = whole.as_ref().filter(|_| self.attempt.policy.keep == Keep::Full);
        let terminal = Terminal {
            status: Some(parts.status.as_u16()),
            reason,
            result_id: running::result_id_of(&parts)
                .or_else(|| answer::result_id(&parts.headers, whole.as_ref(), &self.attempt.policy)),
            has_response: full.is_some(),
        };
        // Without its body an answer keeps its headers: `Location` goes with `response_not_stored`.
        let stored = answer::stored(&parts, full.unwrap_or(&Bytes::new()), &self.attempt.policy);
        let applied = self.finish(Finish::Terminal(terminal), Some(stored), until).await;
        self.settled(applied, |receipt| answer::first(parts, body, receipt)).await
    }

    async fn conclude_panic(&self, until: Instant) -> Response {
        tracing::error!(event = "handler_panicked", operation = self.attempt.operation, "the handler panicked");
        let (parts, body) = answer::panicked().into_parts();
        match panicked(&self.attempt.policy) {
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

    /// The handler ended by the error of an effect.
    async fn conclude_cut_short(&self, how: CutShort, until: Instant) -> Response {
        // What was not called for the store's sake is as what was cut off by a crash: only a journal shows that there
        // was nothing else.
        if how == CutShort::NotDone || (how == CutShort::NotCalled && self.attempt.policy.journaled) {
            let applied = self.finish(Finish::Released { not_before: None }, None, until).await;
            return self.settled(applied, |receipt| self.attempt.released(receipt).into_response()).await;
        }
        self.conclude_uncertain(Reason::Holder, OPEN, until).await
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
        self.attempt.tell_uncertain(reason, why, self.thread.trace_id.as_deref());
        self.settled(applied, |receipt| self.attempt.uncertain(why).receipt(receipt).into_response()).await
    }

    async fn finish(
        &self,
        finish: Finish,
        response: Option<StoredResponse>,
        until: Instant,
    ) -> Result<Applied, StoreError> {
        let Attempt { operation, fence, id, .. } = &*self.attempt;
        let span = observe::finish_span(operation, *fence, *id);
        self.thread.store(self.attempt.finish(finish, response, Note::default(), until)).instrument(span).await
    }

    /// What the caller hears once the end is written: what the record says now, never more.
    async fn settled(&self, applied: Result<Applied, StoreError>, own: impl FnOnce(Receipt) -> Response) -> Response {
        match self.attempt.ended(applied).await {
            Ok(record) => own(record.receipt()),
            Err(Otherwise::Replay(outcome)) => outcome.into_response(),
            Err(Otherwise::Refused(problem)) => problem.into_response(),
            Err(Otherwise::Stale(record)) => self.attempt.lost(record.as_deref()).into_response(),
        }
    }

    fn timed_out(&self, record: Option<&Record>) -> Response {
        self.attempt.tell_uncertain(Reason::Deadline, "no answer within the timeout", self.thread.trace_id.as_deref());
        let detail = format!(
            "No whole answer within {} ms. A late answer will be kept; send the same request with the same key to get it.",
            self.attempt.policy.timeout.as_millis()
        );
        let problem = Problem::new(Code::UpstreamTimeout, detail).about(&self.attempt.operation);
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
