//! A client that speaks HTTP/2 with prior knowledge.

use crate::patience::patiently;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Version};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A body to send.
pub type Outgoing = BoxBody<Bytes, Infallible>;

/// One connection; clones of the sender share it.
#[derive(Debug)]
pub struct Connection {
    /// Sends requests.
    pub sender: SendRequest<Outgoing>,
    /// How the connection ended.
    pub ended: JoinHandle<hyper::Result<()>>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The fields before the body.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The fields after it.
    pub trailers: HeaderMap,
}

impl Connection {
    /// Connects.
    pub async fn open(addr: SocketAddr) -> Self {
        let stream = patiently("connect", TcpStream::connect(addr)).await.expect("connect");
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        Self { sender, ended: tokio::spawn(connection) }
    }

    /// Sends and reads the whole answer.
    pub async fn exchange(&self, request: Request<Outgoing>) -> hyper::Result<Answer> {
        let mut sender = self.sender.clone();
        patiently("an answer over HTTP/2", async move {
            sender.ready().await?;
            let (parts, body) = sender.send_request(request).await?.into_parts();
            assert_eq!(parts.version, Version::HTTP_2);
            let body = body.collect().await?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes(), trailers })
        })
        .await
    }
}

/// A body in one piece.
pub fn full(body: impl Into<Bytes>) -> Outgoing {
    Full::new(body.into()).boxed()
}

/// A tea order under this key.
pub fn order(key: &str) -> Request<Outgoing> {
    let request = Request::post("http://shop.example/orders").header("authorization", "Bearer token-of-ann");
    let request = request.header("idempotency-key", key).header("content-type", "application/json");
    request.body(full(r#"{"sku":"tea","qty":1}"#)).expect("a request")
}
