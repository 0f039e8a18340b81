//! The other ends: a bare upstream, a bare proxy and a bare echo, each as small as its library allows.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;

const ORDER: &str =
    r#"{"id":"o-4711","sku":"tea","quantity":3,"state":"accepted","total":{"amount":"12.90","currency":"EUR"}}"#;

#[allow(clippy::print_stdout, reason = "whoever started it waits for this line")]
async fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(listener)
}

/// Reads a body whole and says what it made.
async fn make(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    request.into_body().collect().await?;
    let mut response = Response::new(Full::new(Bytes::from_static(ORDER.as_bytes())));
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/orders/o-4711"));
    Ok(response)
}

/// hyper on one thread.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn upstream() -> Result<()> {
    let listener = listen().await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(make)),
        );
    }
}

/// axum as its documentation shows it.
#[tokio::main]
pub(crate) async fn echo() -> Result<()> {
    let made = async |body: Bytes| (StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], body);
    let listener = axum::serve::ListenerExt::tap_io(listen().await?, |stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, Router::new().route("/orders", post(made))).await?)
}

/// hyper's server before hyper's pooled client, and nothing between.
#[tokio::main]
pub(crate) async fn proxy(to: SocketAddr) -> Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<HttpConnector, Incoming> =
        Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
    let listener = listen().await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let client = client.clone();
        let forward = service_fn(move |mut request: Request<Incoming>| {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let uri: Result<Uri, _> = format!("http://{to}{path}").parse();
            let client = client.clone();
            async move {
                if let Ok(uri) = uri {
                    *request.uri_mut() = uri;
                }
                request.headers_mut().remove(HOST);
                let answer = client.request(request).await.map(|answer| answer.map(BodyExt::boxed));
                Ok::<_, Infallible>(answer.unwrap_or_else(|_| bad_gateway()))
            }
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), forward),
        );
    }
}

fn bad_gateway() -> Response<http_body_util::combinators::BoxBody<Bytes, hyper::Error>> {
    let mut response = Response::new(Full::default().map_err(|never: Infallible| match never {}).boxed());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
