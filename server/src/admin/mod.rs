//! The admin listener: for operators, programs of theirs, and whoever watches the process.
//!
//! `/healthz` and `/readyz` are open, because a kubelet has no token to send, and so is the [page] under `/ops/`,
//! which has nothing to show without one. Everything else, what does not exist
//! among it, is behind a token of the [token file](token), also on loopback: other users of the machine reach it,
//! and so does any web page that a browser on it shows, under a name that resolves to it.

mod guard;
mod health;
mod metrics;
mod page;
mod token;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use tokio::net::TcpListener;

pub(crate) use self::guard::Guard;
pub(crate) use self::health::Phase;
pub(crate) use self::token::{DEFAULT_FILE, Grant, Scope, Tokens, pick as pick_token};
use crate::api::{self, Api};
use crate::observe::Exporter;
use crate::problem::{self, Place, plain};
use crate::proxy::listen;
use crate::routes::Prefix;
use crate::store::Store;

/// For all of a request, from its head to the head of its answer: whoever operates a server is near it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Bodies of the routes here are short; one that takes payloads says its own limit.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Every route of the listener. `pages` is where the public listener explains the codes.
pub(crate) fn routes(store: Store, phase: Phase, guard: &Guard, exporter: Exporter, api: Api, pages: Prefix) -> Router {
    health::routes(store.clone(), phase)
        .merge(page::routes())
        .merge(api::routes(api, guard))
        .merge(guard.needs(Scope::Read, metrics::routes(store, exporter)))
        .merge(guard.any(Router::new().fallback(unknown)))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(pages, finish))
}

/// Serves until told to stop, then lets what is being answered come to its end.
pub(crate) async fn serve(listener: TcpListener, routes: Router, stop: impl Future<Output = ()>) {
    listen::serve(listener, routes, stop).await.shutdown().await;
}

/// Where the tokens are if nobody says: beside the store, whose folder can be written anyway.
pub(crate) fn default_file(store: &Path) -> PathBuf {
    store.with_file_name(DEFAULT_FILE)
}

/// In time, never cached, and with references of a refusal that lead somewhere.
async fn finish(State(pages): State<Prefix>, request: Request, next: Next) -> Response {
    let mut answer = match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => plain(StatusCode::REQUEST_TIMEOUT, "The request took too long. What it began may have happened."),
    };
    problem::finish(&mut answer, &Place { prefix: &pages, operation: None });
    answer.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

async fn unknown() -> Response {
    plain(StatusCode::NOT_FOUND, "There is no such route on the admin listener.")
}
