//! `GET /metrics`: what was counted, as Prometheus reads it.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::observe::{self, Exporter};
use crate::problem::plain;
use crate::store::Store;

/// The text format of Prometheus, version 0.0.4.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes(store: Store, exporter: Exporter) -> Router {
    Router::new().route("/metrics", get(scrape)).with_state((store, exporter))
}

async fn scrape(State((store, exporter)): State<(Store, Exporter)>) -> Response {
    // A queue that stands still tells of itself to nobody.
    observe::queued(store.queue());
    match tokio::task::spawn_blocking(move || exporter.render()).await {
        Ok(text) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "The metrics could not be written down."),
    }
}
