//! The public listener: connections in, requests to the service, a graceful end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::response::Response;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt};

use super::arriving::{Arriving, arrive, bad};
use super::outgoing::{Outgoing, Requests};
use super::socket::{Socket, Spoken};
use crate::layer::Peer;

/// Clients that do not get their head across in this time are cut off.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// A head's size, with both protocols. Twice what common servers take; HTTP/1.1 buffers this much of a body, too.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Header lines of a head.
const MAX_HEADERS: usize = 128;
/// Requests at once on one HTTP/2 connection: what browsers and servers commonly agree on is 100 to 250.
const MAX_STREAMS: u32 = 200;
/// A silent HTTP/2 client is asked this often whether it is still there, and has as long to answer.
const PING: Duration = Duration::from_secs(30);
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
    S: Service<Request<Arriving>, Response = Response, Error = Infallible> + Clone + Send + 'static,
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
    S: Service<Request<Arriving>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    // Small answers must not wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    let mut stopped = stopping.clone();
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(HEADER_READ_TIMEOUT, Box::pin(Socket::greet(stream))) => greeted,
        () = async {
            let _ = stopped.wait_for(|stop| *stop).await;
            tokio::time::sleep(IDLE_GRACE).await;
        } => return,
    };
    let Ok(Ok((spoken, socket))) = greeted else { return };
    let leaves = socket.leaves();
    let requests = Requests::default();
    let counted = requests.clone();
    let answering = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (service, answered, leaves) = (service.clone(), counted.begin(), leaves.clone());
        async move {
            let response = match arrive(request) {
                Err(why) => bad(why),
                Ok((mut request, expects)) => {
                    request.extensions_mut().insert(peer);
                    let mut response = service.oneshot(request).await?;
                    expects.close(&mut response);
                    response
                }
            };
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                leaves.http();
            }
            Ok::<_, Infallible>(response.map(|body| Outgoing::new(body, answered)))
        }
    });
    let server = server(spoken);
    let mut connection = Box::pin(server.serve_connection_with_upgrades(TokioIo::new(socket), answering));
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

fn server(spoken: Spoken) -> auto::Builder<TokioExecutor> {
    let server = auto::Builder::new(TokioExecutor::new());
    match spoken {
        Spoken::Http1 => {
            let mut server = server.http1_only();
            let mut http1 = server.http1();
            http1.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT);
            http1.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
            // A client that has sent everything may close its side and still wait for the answer.
            http1.half_close(true);
            server
        }
        Spoken::Http2 => {
            let mut server = server.http2_only();
            let mut http2 = server.http2();
            http2.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PING);
            http2
                .max_concurrent_streams(MAX_STREAMS)
                .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX));
            server
        }
    }
}
