//! Is the process alive, and may it get traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;

use crate::store::Store;

/// Whether the server is on its way out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase(Arc<AtomicBool>);

impl Phase {
    pub(crate) fn drain(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn routes(store: Store, phase: Phase) -> Router {
    Router::new()
        .route("/healthz", get(|| async { answer(StatusCode::OK, &json!({ "status": "alive" })) }))
        .route("/readyz", get(ready))
        .with_state((store, phase))
}

/// Ready is a server whose store takes a write; the service behind has its own probe.
async fn ready(State((store, phase)): State<(Store, Phase)>) -> Response {
    if phase.0.load(Ordering::Relaxed) {
        return answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "draining" }));
    }
    match store.ready().await {
        Ok(()) => answer(StatusCode::OK, &json!({ "status": "ready" })),
        Err(error) => {
            tracing::warn!(event = "not_ready", error = %error);
            answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "store unavailable" }))
        }
    }
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
