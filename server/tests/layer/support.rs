//! A router with one command, its store in a temporary folder, and a count of the effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use samekey::{Actor, IdempotencyLayer, Policy, Store};
use tower::ServiceExt;

/// A store in a folder that goes away with it.
pub(crate) struct Kept {
    pub(crate) store: Store,
    _folder: tempfile::TempDir,
}

pub(crate) async fn store() -> Kept {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::sqlite(folder.path().join("samekey.db")).await.unwrap();
    Kept { store, _folder: folder }
}

/// The layer of these tests: the actor is whoever `x-user` names.
pub(crate) fn layer(store: &Store) -> IdempotencyLayer {
    IdempotencyLayer::new(store.clone())
        .actor(|parts| parts.headers.get("x-user").and_then(|user| user.to_str().ok()).map(Actor::new))
}

pub(crate) fn policy() -> Policy {
    Policy::new("orders.create").wait(Duration::from_millis(200), Duration::from_secs(10))
}

/// Effects that happened.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<AtomicU32>);

impl Ledger {
    pub(crate) fn enter(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    pub(crate) fn code(&self) -> String {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        problem["code"].as_str().unwrap_or_default().to_owned()
    }
    pub(crate) fn replayed(&self) -> bool {
        self.header("idempotent-replayed") == "true"
    }
}

pub(crate) fn request(path: &str, key: &str, body: &'static str) -> Request<Body> {
    Request::post(path)
        .header("idempotency-key", key)
        .header("x-user", "ann")
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap()
}

pub(crate) async fn send(app: &Router, request: Request<Body>) -> Answer {
    read(app.clone().oneshot(request).await.unwrap()).await
}

pub(crate) async fn read(response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}
