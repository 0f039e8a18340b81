//! Reads a request into a [`Command`] for handlers that call [`crate::sqlite::run_once`] themselves.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Request;
use http::request::Parts;
use samekey_core::problem::Code;
use samekey_core::select::Profile;
use samekey_core::{Actor, KeyRule, Policy};
use tower::{Layer, Service};

use super::actor::Find;
use super::limits::{Budget, Limits};
use super::params::Params;
use super::route::{One, Resolve};
use super::{admit, request_id};
use crate::command::{Command, Fingerprint};
use crate::names;
use crate::problem::Problem;

/// A layer on a method router whose handler takes a [`Command`]: it finds actor and key, reads the body once, and
/// takes the fingerprint. It answers 400, 401 and 413; claiming is the handler's.
#[derive(Clone)]
pub struct CommandLayer {
    one: Arc<One>,
    find: Arc<Find>,
    budget: Budget,
}

impl std::fmt::Debug for CommandLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandLayer").finish_non_exhaustive()
    }
}

impl CommandLayer {
    /// Commands of one operation. Requests have no actor until [`CommandLayer::actor`] says how to find one.
    ///
    /// # Panics
    /// If [`Policy::check`] refuses the policy.
    #[track_caller]
    pub fn new(policy: Policy) -> Self {
        let name = policy.operation.clone();
        match One::new(policy) {
            Ok(one) => Self {
                one: Arc::new(one),
                find: Arc::new(|_| None),
                budget: Budget::new(Limits::default().max_buffered_bytes),
            },
            Err(error) => panic!("the policy of {name} cannot hold: {error}"),
        }
    }

    /// Who asks: usually what the authentication layer put into the request's extensions.
    #[must_use]
    pub fn actor(mut self, find: impl Fn(&Parts) -> Option<Actor> + Send + Sync + 'static) -> Self {
        self.find = Arc::new(find);
        self
    }

    /// The request with its command among its extensions, if it has a key.
    async fn read(&self, request: Request<Body>) -> Result<Request<Body>, Problem> {
        let (mut parts, body) = request.into_parts();
        names::strip_ours(&mut parts.headers);
        let route = self.one.route(&parts);
        let policy = route.policy;
        let keyed = parts.headers.contains_key(names::KEY);
        if policy.key == KeyRule::Ignore || (policy.key == KeyRule::Optional && !keyed) {
            return Ok(Request::from_parts(parts, body));
        }
        let actor = match (self.find)(&parts) {
            Some(actor) => actor,
            None if policy.anonymous => Actor::anonymous(),
            None => {
                return Err(Problem::new(
                    Code::ActorRequired,
                    "A request with an idempotency key needs a known caller.",
                ));
            }
        };
        let key = admit::key_of(&parts, &names::KEY, &policy, actor == Actor::anonymous())?;
        let id = request_id(&mut parts).to_str().ok().map(str::to_owned);
        let admit::Read { bytes: body, reserved: _reserved, .. } =
            admit::body(&parts, body, &policy, &self.budget).await?;
        let params = match route.params {
            Some(params) => params,
            None => Params::of_axum(&mut parts).await,
        };
        let taken = admit::print(&parts, &params.under(route.profile.template()), &body, &route.profile).await;
        let again = {
            let (parts, body) = (parts.clone(), body.clone());
            move |profile: &Profile| admit::print_now(&parts, &params.under(profile.template()), &body, profile)
        };
        let fingerprint = Fingerprint { taken, profile: route.profile, again: Some(Arc::new(again)) };
        let mut command = Command::new(actor, route.operation, key, fingerprint);
        command.request_id = id;
        command.also = route.also;
        parts.extensions.insert(command);
        Ok(Request::from_parts(parts, Body::from(body)))
    }
}

impl<S> Layer<S> for CommandLayer {
    type Service = Commands<S>;

    fn layer(&self, inner: S) -> Commands<S> {
        Commands { inner, layer: self.clone() }
    }
}

/// What [`CommandLayer`] makes of a service.
#[derive(Clone, Debug)]
pub struct Commands<S> {
    inner: S,
    layer: CommandLayer,
}

impl<S, B> Service<Request<B>> for Commands<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Response: IntoResponse,
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
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        let request = request.map(Body::new);
        Box::pin(async move {
            match layer.read(request).await {
                Ok(request) => inner.call(request).await.map(IntoResponse::into_response),
                Err(problem) => Ok(problem.into_response()),
            }
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Command {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Problem::new(
                Code::KeyRequired,
                "Send the header Idempotency-Key, one value per intent, for example a UUID.",
            )
        })
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Command {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}
