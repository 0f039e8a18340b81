//! The public listener: connections in, requests to the service, a graceful end.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tower::Service;

use super::cut;
use crate::layer::Peer;

/// Clients that do not get their head across in this time are cut off.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until the signal; what comes back lets open connections end their requests.
pub(crate) async fn serve<S>(listener: TcpListener, service: S, signal: impl Future<Output = ()>) -> GracefulShutdown
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let connections = GracefulShutdown::new();
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT).half_close(true);
    tokio::pin!(signal);
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
        // Small answers must not wait for the acknowledgement of earlier ones.
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        let answering = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer.ip()));
            let answer = tower::ServiceExt::oneshot(service.clone(), request);
            async move { answer.await.map(cut::visibly) }
        });
        let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), answering).into_owned();
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(event = "connection_error", error = %error);
            }
        });
    }
}
