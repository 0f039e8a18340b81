//! The service: what passes, what is refused, what waits, what runs.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Request;
use http::request::Parts;
use samekey_core::claim::Say;
use samekey_core::problem::Code;
use samekey_core::receipt::{Receipt, Word};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tracing::Instrument;

use super::capture::{Captured, capture};
use super::limits::Reserved;
use super::params::Params;
use super::route::{Coverage, Route, coverage, unprotected};
use super::run::{Heard, Start, run, spawn, with_trailers};
use super::{Failure, NotAfter, Running, Shared, admit, answer, record};
use crate::claim::wait;
use crate::names;
use crate::observe;
use crate::problem::Problem;
use crate::routes::Origin;
use crate::store::Ask;

/// What [`super::IdempotencyLayer`] makes of a service.
#[derive(Clone)]
pub struct Idempotency<S> {
    pub(super) inner: S,
    pub(super) shared: Arc<Shared>,
}

impl<S> std::fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency").finish_non_exhaustive()
    }
}

impl<S, B> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Response: IntoResponse,
    S::Error: std::fmt::Display + Send,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled ready is the one that is called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        let (mut parts, body) = request.into_parts();
        let body = Body::new(body);
        let expected_actor = parts.headers.get_all(names::ACTOR).iter().cloned().collect();
        names::strip_ours(&mut parts.headers);
        shared.actor.strip(&mut parts);

        let origin = shared.cors.origin(&parts.headers);
        if let Some(answer) = preflight(&shared, &parts, origin.as_ref()) {
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let route = shared.resolve.route(&parts);
        match coverage(&parts.method, parts.headers.contains_key(&shared.key_header), &route) {
            Coverage::Passes { keyed } => {
                let arrived = Instant::now();
                let label = observe::label(route.configured, &route.operation);
                if let Some(reason) = unprotected(&parts.method, keyed, &route) {
                    observe::unprotected(&label, reason);
                }
                let answered = inner.call(Request::from_parts(parts, body));
                Box::pin(async move {
                    let mut response = answered.await?.into_response();
                    observe::passed(&label, arrived.elapsed());
                    names::strip_ours(response.headers_mut());
                    if keyed {
                        response.headers_mut().insert(names::STATE, names::value(&Receipt::of(Word::NotCovered)));
                    }
                    Ok(response)
                })
            }
            Coverage::Covered => Box::pin(async move {
                let request_id = super::request_id(&mut parts);
                let mut seen = record::Seen::new(&shared, &parts, &request_id, &route);
                let span = seen.span();
                let delivery = Covered { shared: &shared, route, request_id, expected_actor };
                let mut response = delivery.answer(parts, body, inner, &mut seen).instrument(span).await;
                seen.finish(&mut response);
                shared.cors.expose(origin.as_ref(), response.headers_mut());
                Ok(response)
            }),
        }
    }
}

/// A preflight that announces a covered request is answered here; every other one is the service's.
fn preflight(shared: &Shared, parts: &Parts, origin: Option<&Origin>) -> Option<Response> {
    let asked = shared.cors.asked(&parts.method, &parts.headers, &shared.key_header)?;
    let mut announced = Request::new(()).into_parts().0;
    announced.method = asked.method;
    announced.uri = parts.uri.clone();
    announced.extensions = parts.extensions.clone();
    let route = shared.resolve.route(&announced);
    let covered = coverage(&announced.method, asked.keyed, &route) == Coverage::Covered;
    covered.then(|| shared.cors.allow(origin, &parts.headers, &shared.key_header))
}

/// A delivery on its way through actor, key, body, store and handler.
struct Covered<'a> {
    shared: &'a Arc<Shared>,
    route: Route,
    request_id: http::HeaderValue,
    expected_actor: Vec<http::HeaderValue>,
}

impl Covered<'_> {
    async fn answer<S>(self, parts: Parts, body: Body, inner: S, seen: &mut record::Seen) -> Response
    where
        S: Service<Request<Body>> + Clone + Send + 'static,
        S::Response: IntoResponse,
        S::Error: std::fmt::Display + Send,
        S::Future: Send,
    {
        match self.decide(parts, body, inner, seen).await {
            Ok(response) => response,
            Err(problem) => {
                if problem.code == Code::ActorChanged {
                    self.shared.actor.explain_change_once();
                }
                problem.into_response()
            }
        }
    }

    async fn decide<S>(
        &self,
        mut parts: Parts,
        body: Body,
        inner: S,
        seen: &mut record::Seen,
    ) -> Result<Response, Problem>
    where
        S: Service<Request<Body>> + Clone + Send + 'static,
        S::Response: IntoResponse,
        S::Error: std::fmt::Display + Send,
        S::Future: Send,
    {
        let policy = Arc::clone(&self.route.policy);
        let actor = admit::actor(self.shared, &parts, &policy).await?;
        seen.actor(&actor);
        admit::expected(self.shared, &actor, &self.expected_actor)?;
        let key = admit::key(self.shared, &parts, &policy, &actor)?;
        seen.key(&key);
        // Boxed, so that a waiter does not carry what reading a body needs.
        let admit::Read { bytes, trailers, reserved } =
            Box::pin(admit::body(&parts, body, &policy, &self.shared.budget)).await?;
        seen.thread.has_body = !bytes.is_empty();
        let params = match self.route.params.clone() {
            Some(params) => params,
            None => Params::of_axum(&mut parts).await,
        };
        let patience = admit::patience(&parts, &policy);
        let mut profile = Arc::clone(&self.route.profile);
        let mut handler = Handler {
            inner,
            parts,
            body: bytes,
            trailers,
            reserved,
            shared: Arc::clone(self.shared),
            policy: Arc::clone(&policy),
            request_id: self.request_id.clone(),
        };
        let passes_405 = self.route.passes_405;
        let mut asked_again = false;
        loop {
            let ask = Ask {
                actor: actor.clone(),
                operation: self.route.operation.clone(),
                also: self.route.also.clone(),
                configured: self.route.configured,
                named: self.route.named.clone(),
                key: key.clone(),
                fingerprint: admit::print(&handler.parts, &params.under(profile.template()), &handler.body, &profile)
                    .await,
                profile: Arc::clone(&profile),
                request_id: handler.request_id.to_str().ok().map(Arc::from),
                holder: crate::new_holder(),
                policy: Arc::clone(&policy),
                fence_credentials: admit::fences(self.shared, &policy),
            };
            let told = match seen.thread.store(self.shared.store.peek(&ask)).await? {
                Some(told) => told,
                None => {
                    seen.asks_to_run(true);
                    let (heard, hears) = oneshot::channel();
                    let (shared, thread) = (Arc::clone(self.shared), seen.thread.clone());
                    spawn(&self.shared.tracker, run(shared, ask.clone(), thread, passes_405, handler, heard));
                    match hears.await {
                        Ok(Heard::Answer(response)) => return Ok(response),
                        Ok(Heard::Refused(problem)) => return Err(problem),
                        Ok(Heard::Told(back)) => {
                            seen.asks_to_run(false);
                            let told;
                            (told, handler) = *back;
                            told
                        }
                        Err(_) => {
                            return Err(Problem::new(
                                Code::OutcomeUncertain,
                                "The server was stopped while the command ran.",
                            ));
                        }
                    }
                }
            };
            seen.told(&told);
            match told.say {
                Say::OtherProfile(_) if !asked_again => {
                    asked_again = true;
                    let Some(other) = told.profile else {
                        return Err(Problem::new(
                            Code::StoreUnavailable,
                            "This key is bound under a profile that the store does not know.",
                        ));
                    };
                    profile = Arc::new(other);
                }
                Say::Wait => {
                    // A waiter holds neither the body nor its share of the budget.
                    drop(handler);
                    let Some(_seat) = self.shared.waiting.enter(&ask.actor, &ask.key) else {
                        return Err(answer::refusal(Code::OperationInProgress, &told, &ask.key, &ask.policy));
                    };
                    seen.waits();
                    let _waits = observe::waiting(&seen.thread.label);
                    let told = wait(&self.shared.store, &ask, told, patience).await?;
                    seen.told(&told);
                    return answer::outcome(&told, &ask).map(IntoResponse::into_response);
                }
                _ => return answer::outcome(&told, &ask).map(IntoResponse::into_response),
            }
        }
    }
}

/// The handler and its request, until the claim is won.
struct Handler<S> {
    inner: S,
    parts: Parts,
    body: Bytes,
    trailers: Option<http::HeaderMap>,
    reserved: Reserved,
    shared: Arc<Shared>,
    policy: Arc<samekey_core::Policy>,
    request_id: http::HeaderValue,
}

impl<S> Start for Handler<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Response: IntoResponse,
    S::Error: std::fmt::Display + Send,
    S::Future: Send,
{
    fn start(mut self, running: Running, drop_at: Instant) -> (oneshot::Receiver<Captured>, JoinHandle<()>) {
        self.parts.headers.insert(names::REQUEST_ID, self.request_id);
        running.tell(&mut self.parts);
        self.parts.extensions.insert(NotAfter(drop_at));
        // A length leaves no place for trailers; an announcement without them is none.
        let gone = if self.trailers.is_some() { http::header::CONTENT_LENGTH } else { http::header::TRAILER };
        self.parts.headers.remove(gone);
        let request = Request::from_parts(self.parts, with_trailers(self.body, self.trailers));
        let (sender, receiver) = oneshot::channel();
        let handler = spawn(&self.shared.tracker, async move {
            let response = match self.inner.oneshot(request).await {
                Ok(response) => response.into_response(),
                Err(error) => Failure::Unknown { detail: error.to_string() }.into_response(),
            };
            drop(self.reserved);
            let (captured, pump) = capture(response, &self.policy).await;
            let _ = sender.send(captured);
            if let Some(pump) = pump {
                pump.run(drop_at).await;
            }
        });
        (receiver, handler)
    }
}
