//! The tower layer: one effect per key around any HTTP service.
//!
//! ```text
//! request ─ coverage ─ actor ─ key ─ body ─ fingerprint ─ store ┬─ replay, refusal      (no task, no write)
//!              │                                                ├─ wait, then replay    (no task)
//!              └ passes untouched                               └─ claim ─ handler ─ finish (a task of its own)
//! ```
//!
//! The layer belongs on a method router, inside the layer that finds out who asks:
//!
//! ```
//! # use samekey::{Actor, IdempotencyLayer, Policy, Store};
//! # use axum::{Router, routing::post, http::StatusCode};
//! # #[derive(Clone)] struct CurrentUser { id: String }
//! # async fn app(store: Store) -> Router {
//! let idempotent = IdempotencyLayer::new(store).actor(|parts| Some(Actor::new(&parts.extensions.get::<CurrentUser>()?.id)));
//! Router::new().route("/orders", post(|| async { StatusCode::CREATED }).layer(idempotent.policy(Policy::new("orders.create"))))
//! # }
//! ```
//!
//! The handler runs in a task of its own: a client that hangs up does not cancel it, and task-locals of the
//! server are not there. Extensions and the tracing span are.

mod actor;
mod admit;
pub(crate) mod answer;
mod capture;
mod command;
mod limits;
mod record;
mod route;
mod run;
mod running;
mod service;

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use samekey_core::{Actor, Policy};
use tokio_util::task::TaskTracker;
use tower::Layer;

pub use actor::{ActorSource, Peer, Trusted};
pub use command::{CommandLayer, Commands};
pub use limits::Limits;
pub use route::{Automatic, Resolve, Route};
pub use running::Running;
pub use service::Idempotency;

use crate::names;
use crate::store::Store;
use limits::{Budget, WaitingRoom};
use route::One;

/// Makes a service safe to retry.
#[derive(Clone)]
pub struct IdempotencyLayer {
    shared: Arc<Shared>,
}

/// What all services of one layer share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) actor: ActorSource,
    pub(crate) resolve: Arc<dyn Resolve>,
    pub(crate) budget: Budget,
    pub(crate) waiting: WaitingRoom,
    pub(crate) tracker: TaskTracker,
}

impl std::fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer").finish_non_exhaustive()
    }
}

impl IdempotencyLayer {
    /// A layer that keeps its records in this store. Requests have no actor until [`IdempotencyLayer::actor`] says how
    /// to find one; operations are named by method and path until [`IdempotencyLayer::policy`] names them.
    pub fn new(store: Store) -> Self {
        let limits = Limits::default();
        Self {
            shared: Arc::new(Shared {
                store,
                actor: ActorSource::none(),
                resolve: Arc::new(Automatic::default()),
                budget: Budget::new(limits.max_buffered_bytes),
                waiting: WaitingRoom::new(limits),
                tracker: TaskTracker::new(),
            }),
        }
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Shared::clone(&self.shared);
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }

    /// Who asks: usually what the authentication layer put into the request's extensions.
    #[must_use]
    pub fn actor(self, find: impl Fn(&Parts) -> Option<Actor> + Send + Sync + 'static) -> Self {
        self.actor_source(ActorSource::extract(find))
    }

    /// Who asks, by one of the binary's kinds of actor.
    #[must_use]
    pub fn actor_source(self, source: ActorSource) -> Self {
        self.with(|shared| shared.actor = source)
    }

    /// What the layer holds at most.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.with(|shared| {
            shared.budget = Budget::new(limits.max_buffered_bytes);
            shared.waiting = WaitingRoom::new(limits);
        })
    }

    /// How requests find their operation.
    #[must_use]
    pub fn resolve(self, resolve: impl Resolve) -> Self {
        self.with(|shared| shared.resolve = Arc::new(resolve))
    }

    /// The same layer for one operation under this contract.
    ///
    /// # Panics
    /// If [`Policy::check`] refuses the policy: call it first where the policy comes from a file.
    #[must_use]
    #[track_caller]
    pub fn policy(&self, policy: Policy) -> Self {
        let name = policy.operation.clone();
        match One::new(policy) {
            Ok(one) => self.clone().resolve(one),
            Err(error) => panic!("the policy of {name} cannot hold: {error}"),
        }
    }

    /// Waits until all handlers have ended; false if some still run after `limit`. Call it after the server has
    /// stopped accepting requests: handlers outlive the connections of their clients.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.shared.tracker.close();
        tokio::time::timeout(limit, self.shared.tracker.wait()).await.is_ok()
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency { inner, shared: Arc::clone(&self.shared) }
    }
}

/// What a forwarding service says in the extensions of its answer when there is none from the service behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was sent: the record is released.
    NotSent {
        /// What happened, in words for the caller.
        detail: String,
    },
    /// Something may have been sent: the outcome is uncertain.
    Unknown {
        /// What happened, in words for the caller.
        detail: String,
    },
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = StatusCode::BAD_GATEWAY.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The request's id: the client's, or a fresh one.
pub(crate) fn request_id(parts: &mut Parts) -> HeaderValue {
    let sent = parts.headers.get(names::REQUEST_ID);
    // A client's id goes to the log and to the service behind: short and visible, or not at all.
    let usable = sent.filter(|id| id.len() <= 128 && id.as_bytes().iter().all(u8::is_ascii_graphic) && !id.is_empty());
    usable.cloned().unwrap_or_else(|| {
        let mut entropy = [0; 16];
        crate::random(&mut entropy);
        names::value(&crate::hex(&entropy))
    })
}
