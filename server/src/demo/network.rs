//! A listener whose connections can break: between the browser and the service, and between that and its provider.

use std::future::Future;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The connection closes without an answer.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("lost, as asked for")]
pub(super) struct Lost;

/// Serves until dropped; then all connections break, as they do when a process dies.
pub(super) async fn serve<F, Fut>(listener: TcpListener, answer: F)
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Response<Body>, Lost>> + Send + 'static,
{
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely; others will be closed.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let answer = answer.clone();
        let mut http = http1::Builder::new();
        // Browsers repeat by themselves what they sent on a kept connection that breaks, and nobody would see a loss.
        http.timer(TokioTimer::new()).keep_alive(false);
        open.spawn(async move {
            // Lost answers end here, and so do clients that hung up.
            let _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

/// The whole body, so that it can be sent twice.
pub(super) async fn whole(request: Request<Incoming>) -> Result<Request<Bytes>, Lost> {
    const MOST_BYTES: usize = 8 << 20;
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await.map_err(|_| Lost)?;
    Ok(Request::from_parts(parts, body.to_bytes()))
}
