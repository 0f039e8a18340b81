//! The external system: a server of its own with a memory of its own, told of each ticket.
//!
//! As many real ones, it takes a reference that it can be asked for later, and does not look whether it had it before:
//! told twice, it notifies twice. `POST /notifications` tells it, `GET /notifications/{reference}` asks.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tower::ServiceExt as _;

use super::switches::{Switches, now};
use super::{AWAY, network};
use crate::EffectError;
use crate::names;
use crate::problem::plain;

/// How long the provider takes where it is slow; less than its caller waits.
const SLOW: Duration = Duration::from_millis(2_500);
/// How long its caller waits.
const PATIENCE: Duration = Duration::from_secs(4);
/// Its memory must not eat all of a machine's.
const MOST: usize = 10_000;

/// Somebody was told of a ticket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Notification {
    pub(super) ticket: i64,
    pub(super) title: String,
    /// `samekey` or `plain`: which way the command came.
    pub(super) way: String,
    pub(super) intent: String,
    #[serde(default)]
    pub(super) reference: String,
    #[serde(default)]
    pub(super) at: u64,
}

/// The provider, from both sides. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Provider(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: SocketAddr,
    sent: Mutex<Vec<Notification>>,
    switches: Arc<Switches>,
    crash: Notify,
    end: Notify,
}

impl Provider {
    /// Serves on this listener, and on one like it after each crash.
    pub(super) fn start(listener: TcpListener, switches: Arc<Switches>) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let inner = Inner { address, sent: Mutex::default(), switches, crash: Notify::new(), end: Notify::new() };
        let provider = Self(Arc::new(inner));
        tokio::spawn(provider.clone().live(listener));
        Ok(provider)
    }

    pub(super) fn close(&self) {
        self.0.end.notify_one();
    }

    async fn live(self, mut listener: TcpListener) {
        let router = Router::new()
            .route("/notifications", post(notify).get(list))
            .route("/notifications/{reference}", get(find))
            .with_state(self.clone());
        loop {
            let provider = self.clone();
            let router = router.clone();
            let answer = move |request: Request<hyper::body::Incoming>| {
                let (provider, router) = (provider.clone(), router.clone());
                async move {
                    let applies = request.method() == http::Method::POST;
                    let response = router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {});
                    provider.after(applies && response.status().is_success()).map(|()| response)
                }
            };
            tokio::select! {
                () = network::serve(listener, answer) => {}
                () = self.0.crash.notified() => {}
                () = self.0.end.notified() => return,
            }
            // Its connections are gone; what it has applied stays applied.
            tokio::time::sleep(AWAY).await;
            listener = loop {
                match TcpListener::bind(self.0.address).await {
                    Ok(listener) => break listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            };
            self.0.switches.note("the provider is back");
        }
    }

    /// Between the effect and the answer.
    fn after(&self, applied: bool) -> Result<(), network::Lost> {
        let switches = &self.0.switches;
        if applied && switches.take(|set| &mut set.provider_crash) {
            switches.note("the provider died after it had notified");
            self.0.crash.notify_one();
            return Err(network::Lost);
        }
        if applied && switches.set().provider_lose_answer {
            switches.note("the provider's answer got lost");
            return Err(network::Lost);
        }
        Ok(())
    }

    fn memory(&self) -> MutexGuard<'_, Vec<Notification>> {
        self.0.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything it did.
    pub(super) fn sent(&self) -> Vec<Notification> {
        self.memory().clone()
    }

    /// Tells it, over the wire. Its error says whether anything may have been applied.
    pub(super) async fn tell(&self, reference: &str, notification: &Notification) -> Result<u64, EffectError> {
        let body = serde_json::to_vec(notification).map_err(EffectError::not_done)?;
        let request = Request::post("/notifications")
            .header(names::KEY, reference)
            .body(Full::new(Bytes::from(body)))
            .map_err(EffectError::not_done)?;
        let (status, body) = self.call(request).await?;
        match status.is_success() {
            true => serde_json::from_slice(&body).map_err(EffectError::unknown),
            // It says so before it does anything.
            false => Err(EffectError::not_done(format!("the provider answered {status}"))),
        }
    }

    /// Asks it whether it ever applied what has this reference.
    pub(super) async fn knows(&self, reference: &str) -> Result<bool, String> {
        if self.0.switches.set().provider_mute {
            return Err("the provider does not answer questions now".into());
        }
        let request = Request::get(format!("/notifications/{reference}")).body(Full::default());
        let request = request.map_err(|error| error.to_string())?;
        match self.call(request).await.map_err(|error| error.to_string())?.0 {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            status => Err(format!("the provider answered {status}")),
        }
    }

    async fn call(&self, mut request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), EffectError> {
        let address = self.0.address;
        if let Ok(host) = http::HeaderValue::try_from(address.to_string()) {
            request.headers_mut().insert(http::header::HOST, host);
        }
        let stream = TcpStream::connect(address).await.map_err(EffectError::not_done)?;
        let asked = async {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let connection = tokio::spawn(connection);
            let answered = async {
                let response = sender.send_request(request).await?;
                let status = response.status();
                Ok((status, response.into_body().collect().await?.to_bytes()))
            };
            let answered: Result<_, hyper::Error> = answered.await;
            connection.abort();
            answered
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(answered) => answered.map_err(EffectError::unknown),
            Err(late) => Err(EffectError::unknown(late)),
        }
    }
}

async fn notify(State(provider): State<Provider>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    if provider.0.switches.set().provider_slow {
        tokio::time::sleep(SLOW).await;
    }
    let Ok(mut notification) = serde_json::from_slice::<Notification>(&body) else {
        return plain(StatusCode::UNPROCESSABLE_ENTITY, "This is no notification.");
    };
    notification.reference = headers.get(names::KEY).and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    notification.at = now();
    let mut sent = provider.memory();
    if sent.len() == MOST {
        return plain(StatusCode::INSUFFICIENT_STORAGE, "The provider's memory is full; restart the demo.");
    }
    sent.push(notification);
    super::desk::json(StatusCode::CREATED, &sent.len())
}

async fn list(State(provider): State<Provider>) -> Response<Body> {
    super::desk::json(StatusCode::OK, &provider.sent())
}

async fn find(State(provider): State<Provider>, Path(reference): Path<String>) -> Response<Body> {
    let sent = provider.sent().into_iter().filter(|one| one.reference == reference).collect::<Vec<_>>();
    match sent.is_empty() {
        false => super::desk::json(StatusCode::OK, &sent),
        true => plain(StatusCode::NOT_FOUND, "Nobody was notified under this reference."),
    }
}
