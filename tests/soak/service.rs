//! The service behind: counts effects by key, and forgets a key that was settled, so that an hour fits in memory.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};

/// Longer than the server's timeout.
const SILENCE: Duration = Duration::from_millis(1600);
/// Long enough for others to come and wait.
const SLOWNESS: Duration = Duration::from_millis(60);
pub(crate) const PAGE_BYTES: usize = 300_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    effects: Arc<Mutex<HashMap<String, u32>>>,
    made: Arc<AtomicU64>,
}

impl Service {
    pub(crate) async fn start(&self) -> SocketAddr {
        let routes = Router::new()
            .route("/orders", post(async |State(it): State<Self>, head: HeaderMap, _: Bytes| it.make(&head)))
            .route(
                "/slow",
                post(async |State(it): State<Self>, head: HeaderMap, _: Bytes| {
                    tokio::time::sleep(SLOWNESS).await;
                    it.make(&head)
                }),
            )
            .route(
                "/silent",
                post(async |State(it): State<Self>, head: HeaderMap, _: Bytes| {
                    let made = it.make(&head);
                    tokio::time::sleep(SILENCE).await;
                    made
                }),
            )
            .route("/page", get(async || vec![b'p'; PAGE_BYTES]))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("its address");
        tokio::spawn(async move { axum::serve(listener, routes).await });
        addr
    }

    /// The effect, and its answer.
    fn make(&self, head: &HeaderMap) -> impl IntoResponse + use<> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        if let Some(key) = head.get("idempotency-key").and_then(|key| key.to_str().ok()) {
            *self.effects().entry(key.to_owned()).or_default() += 1;
        }
        let kind = (header::CONTENT_TYPE, "application/json".to_owned());
        (
            StatusCode::CREATED,
            [kind, (header::LOCATION, format!("/orders/o-{number}"))],
            format!(r#"{{"id":"o-{number}"}}"#),
        )
    }

    fn effects(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many effects a key had so far. It is over: whatever comes later stays in [`Service::left`].
    pub(crate) fn settle(&self, key: &str) -> u32 {
        self.effects().remove(key).unwrap_or_default()
    }

    /// Keys with effects that nobody settled.
    pub(crate) fn left(&self) -> usize {
        self.effects().len()
    }

    /// All effects ever.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}
