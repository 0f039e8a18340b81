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

pub(crate) mod actor;
pub(crate) mod admit;
pub(crate) mod answer;
mod capture;
mod command;
mod limits;
mod operations;
mod params;
mod record;
mod route;
mod run;
mod running;
mod service;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use samekey_core::{Actor, Policy};
use tokio_util::task::TaskTracker;
use tower::Layer;

#[cfg(feature = "cli")]
pub(crate) use actor::id::actor as actor_of;
pub use actor::{ActorSource, Peer, Trusted};
pub use command::{CommandLayer, Commands};
pub use limits::Limits;
pub use operations::{Operation, OperationError, Operations};
pub use params::Params;
#[cfg(feature = "cli")]
pub(crate) use route::register;
pub use route::{Automatic, Published, Resolve, Route};
pub(crate) use route::{by_name, is_covered, published};
pub use running::{Means, ResultId, Running};
pub use service::Idempotency;

use crate::claim::WaitingRoom;
use crate::names;
use crate::observe::{self, Suspects};
use crate::routes::{self, Cors, Front, Origin, Prefix};
use crate::store::Store;
use limits::Budget;
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
    pub(crate) key_header: http::HeaderName,
    pub(crate) budget: Budget,
    pub(crate) waiting: WaitingRoom,
    pub(crate) tracker: TaskTracker,
    /// Where the routes lie, and so where answers refer to.
    pub(crate) prefix: Prefix,
    pub(crate) cors: Cors,
    /// The operations that [`IdempotencyLayer::policy`] named, for the routes.
    pub(crate) policies: Arc<Mutex<Vec<Published>>>,
    /// Commands that ran a moment ago.
    pub(crate) suspects: Arc<Suspects>,
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
                key_header: names::KEY,
                budget: Budget::new(limits.max_buffered_bytes),
                waiting: WaitingRoom::new(limits.max_waiters, limits.waiters_per_key),
                tracker: TaskTracker::new(),
                prefix: Prefix::default(),
                cors: Cors::default(),
                policies: Arc::default(),
                suspects: Arc::default(),
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
            shared.waiting = WaitingRoom::new(limits.max_waiters, limits.waiters_per_key);
        })
    }

    /// The request header that carries the key, if it is not `Idempotency-Key`.
    #[must_use]
    pub fn key_header(self, name: http::HeaderName) -> Self {
        self.with(|shared| shared.key_header = name)
    }

    /// How requests find their operation.
    #[must_use]
    pub fn resolve(self, resolve: impl Resolve) -> Self {
        self.with(|shared| shared.resolve = Arc::new(resolve))
    }

    /// Where the routes lie and where answers refer to, if not under `/.well-known/samekey`. As every setting, it holds
    /// for the layers that [`IdempotencyLayer::policy`] makes from here on.
    #[must_use]
    pub fn public_prefix(self, prefix: Prefix) -> Self {
        self.with(|shared| shared.prefix = prefix)
    }

    /// Origins whose scripts may send covered requests and read their answers.
    #[must_use]
    pub fn cors(self, origins: impl IntoIterator<Item = Origin>) -> Self {
        self.with(|shared| shared.cors = Cors::new(origins.into_iter().collect()))
    }

    /// The routes for clients: the status of a key and closing it, the contract of every operation that
    /// [`IdempotencyLayer::policy`] named, and the pages of the codes. They belong inside the layer that finds out who
    /// asks.
    ///
    /// ```
    /// # use samekey::{Actor, IdempotencyLayer, Policy, Store};
    /// # use axum::{Router, routing::post, http::StatusCode};
    /// # async fn app(idempotent: IdempotencyLayer) -> Router {
    /// Router::new()
    ///     .route("/orders", post(|| async { StatusCode::CREATED }).layer(idempotent.policy(Policy::new("orders.create"))))
    ///     .merge(idempotent.routes())
    /// # }
    /// ```
    pub fn routes<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        routes::router(Arc::clone(&self.shared))
    }

    /// The routes in front of a service that this layer is around.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "an application has a router of its own"))]
    pub(crate) fn front<S>(&self, inner: S) -> Front<S> {
        Front { prefix: self.shared.prefix.clone(), routes: self.routes(), inner }
    }

    /// What programs that are not HTTP services claim by: the same store, limits and operations.
    #[cfg(feature = "cli")]
    pub(crate) fn api(&self) -> crate::api::Api {
        crate::api::Api::new(Arc::clone(&self.shared))
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
            Ok(one) => {
                route::publish(&self.shared, one.published());
                self.clone().resolve(one)
            }
            Err(error) => panic!("the policy of {name} cannot hold: {error}"),
        }
    }

    /// Tells the gauges about records and about the store's queue, every 15 s for as long as it is polled: spawn it
    /// beside the server. All other metrics are told by whoever moves them.
    pub async fn observe(&self) {
        let mut sampler = observe::Sampler::default();
        loop {
            let known = published(&self.shared).into_iter().filter(|operation| !operation.automatic);
            let known = known.map(|operation| operation.policy.operation.to_string());
            let contract =
                |name: &str| by_name(&self.shared, name).filter(|route| route.configured).map(|route| route.policy);
            if let Err(error) = sampler.look(&self.shared.store, known, contract).await {
                tracing::warn!(event = "store_error", %error, "the records could not be counted");
            }
            tokio::time::sleep(observe::EVERY).await;
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
        // Not before: a layer that no service has makes no records, and its defaults are nobody's contract.
        route::register(self.shared.store.policies(), &self.shared.resolve.operations());
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

/// In the extensions of a request under a claim: from this moment on others may settle the record, so nothing may be
/// begun any more. Whoever waited before the first byte, for a connection say, looks at it again.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "the binary's forwarding looks at it"))]
pub(crate) struct NotAfter(pub(crate) tokio::time::Instant);

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
