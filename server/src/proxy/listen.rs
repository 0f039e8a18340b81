//! The public listener: connections in, requests to the service, a graceful end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::response::Response;
use http::uri::Uri;
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt};

use super::outgoing::{Outgoing, Requests};
use crate::layer::Peer;

/// Clients that do not get their head across in this time are cut off.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long, once the server stops, a connection may be without a request that is being answered.
const IDLE_GRACE: Duration = Duration::from_secs(2);

/// Connections that are still open.
#[derive(Debug)]
pub(crate) struct Connections {
    stop: watch::Sender<bool>,
    open: TaskTracker,
}

impl Connections {
    /// Lets every request that is being answered come to its end, and closes connections that have none.
    pub(crate) async fn shutdown(self) {
        self.stop.send_replace(true);
        self.open.close();
        self.open.wait().await;
    }
}

/// Serves until the signal.
pub(crate) async fn serve<S>(listener: TcpListener, service: S, signal: impl Future<Output = ()>) -> Connections
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let connections = Connections { stop: watch::Sender::new(false), open: TaskTracker::new() };
    let mut signal = pin!(signal);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut signal => return connections,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Usually EMFILE, which passes when connections end; aborted connections are no error of ours.
                    tracing::warn!(event = "accept_error", error = %error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let stopping = connections.stop.subscribe();
        connections.open.spawn(connection(stream, Peer(peer.ip()), service.clone(), stopping));
    }
}

async fn connection<S>(stream: TcpStream, peer: Peer, service: S, mut stopping: watch::Receiver<bool>)
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    // Small answers must not wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    let requests = Requests::default();
    let counted = requests.clone();
    let answering = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let (service, answered) = (service.clone(), counted.begin());
        async move {
            let response = match check_target(&request) {
                Some(refusal) => refusal,
                None => {
                    request.extensions_mut().insert(peer);
                    service.oneshot(request).await?
                }
            };
            Ok::<_, Infallible>(response.map(|body| Outgoing::new(body, answered)))
        }
    });
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    // A client that has sent everything may close its side and still wait for the answer.
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT).half_close(true);
    let mut connection = pin!(server.serve_connection_with_upgrades(TokioIo::new(stream), answering));
    let stopped = async { stopping.wait_for(|stop| *stop).await.map(|_| ()) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopped => {
            connection.as_mut().graceful_shutdown();
            loop {
                tokio::select! {
                    ended = connection.as_mut() => break ended,
                    // Silent or half-sent: nothing was begun that closing could break.
                    () = tokio::time::sleep(IDLE_GRACE) => if requests.none() { break Ok(()) },
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(event = "connection_error", error = %error);
    }
}

/// A target without a path (`POST orders`, the authority form) is for CONNECT only (RFC 9112, section 3.2).
fn check_target(request: &Request<Incoming>) -> Option<Response> {
    let targeted = |uri: &Uri| uri.scheme().is_some() || uri.authority().is_none();
    if *request.method() == Method::CONNECT || targeted(request.uri()) {
        return None;
    }
    let mut response = Response::new("The request's target has no path.\n".into());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Some(response)
}
