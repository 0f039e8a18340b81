//! A shop as services are: every POST is one more order, and sometimes the answer gets lost.
//!
//! * `POST /orders` with `{"sku":"tea","quantity":1}`: `201` and the order, `422` on nonsense.
//! * `GET /orders`: the ledger; `GET /orders/{id}`: one order.
//!
//! Headers make it misbehave (headers, because the payload and the query are part of what samekey
//! compares): `Shop-Delay-Ms: 3000` takes its time, `Shop-Fault` is `lost-answer` (the order is
//! taken, then the connection closes), `error-after` or `error-before` (500 with or without an
//! order), or `busy` (503 with `Retry-After`, no order).

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

/// Long enough for every deadline a newcomer might want to see pass.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// The ledger is in memory, and a demo that runs for weeks must not eat it all.
const MAX_ORDERS: usize = 100_000;

/// How long open requests may go on after the demo was told to end.
const GRACE: Duration = Duration::from_secs(1);

/// Serves the shop until `shutdown` ends.
pub(crate) async fn shop(listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let router = router();
    let graceful = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // Out of descriptors, most likely; others will be closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        let router = router.clone();
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let answer = router.clone().oneshot(request.map(Body::new));
            async move {
                let response = answer.await.unwrap_or_else(|never| match never {});
                // An error of the service makes hyper close the connection without an answer.
                match response.extensions().get::<LostAnswer>() {
                    Some(LostAnswer) => Err(LostAnswer),
                    None => Ok(response),
                }
            }
        });
        let connection = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // Lost answers end here, and so do clients that hung up.
            let _ = connection.await;
        });
    }
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was lost, as asked for")]
struct LostAnswer;

type Ledger = Arc<Mutex<Vec<Order>>>;

#[derive(Clone, Serialize)]
struct Order {
    id: String,
    sku: String,
    quantity: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    sku: String,
    quantity: u32,
}

fn router() -> Router {
    Router::new()
        .route("/orders", post(take).get(ledger))
        .route("/orders/{id}", get(order))
        .with_state(Ledger::default())
}

async fn take(State(ledger): State<Ledger>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let delay = said("shop-delay-ms").and_then(|ms| ms.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
    tokio::time::sleep(delay.min(MAX_DELAY)).await;
    let fault = said("shop-fault");
    match fault {
        Some("error-before") => {
            return problem(StatusCode::INTERNAL_SERVER_ERROR, "Asked to fail; no order was taken.");
        }
        Some("busy") => {
            let mut busy = problem(StatusCode::SERVICE_UNAVAILABLE, "Asked to be busy; no order was taken.");
            busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return busy;
        }
        _ => {}
    }
    let wanted = match serde_json::from_slice::<Wanted>(&body) {
        Ok(wanted) if (1..=1000).contains(&wanted.quantity) && !wanted.sku.is_empty() => wanted,
        Ok(_) => {
            return problem(StatusCode::UNPROCESSABLE_ENTITY, "An order has a sku and a quantity from 1 to 1000.");
        }
        Err(error) => {
            return problem(StatusCode::UNPROCESSABLE_ENTITY, &format!("This is not an order: {error}."));
        }
    };
    let order = {
        let mut orders = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.len() >= MAX_ORDERS {
            return problem(StatusCode::INSUFFICIENT_STORAGE, "The ledger is full; restart the demo.");
        }
        let id = format!("o{}", orders.len() + 1);
        let order = Order { id, sku: wanted.sku, quantity: wanted.quantity };
        orders.push(order.clone());
        order
    };
    match fault {
        Some("lost-answer") => {
            let mut lost = Response::new(Body::empty());
            lost.extensions_mut().insert(LostAnswer);
            lost
        }
        Some("error-after") => problem(StatusCode::INTERNAL_SERVER_ERROR, "Asked to fail after the order was taken."),
        _ => {
            let mut response = json(StatusCode::CREATED, &order);
            if let Ok(location) = HeaderValue::try_from(format!("/orders/{}", order.id)) {
                response.headers_mut().insert(LOCATION, location);
            }
            response
        }
    }
}

async fn ledger(State(ledger): State<Ledger>) -> Response<Body> {
    #[derive(Serialize)]
    struct Page {
        count: usize,
        orders: Vec<Order>,
    }
    let orders = ledger.lock().unwrap_or_else(PoisonError::into_inner).clone();
    json(StatusCode::OK, &Page { count: orders.len(), orders })
}

async fn order(State(ledger): State<Ledger>, Path(id): Path<String>) -> Result<Response<Body>, Infallible> {
    let orders = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match orders.iter().find(|order| order.id == id) {
        Some(order) => json(StatusCode::OK, order),
        None => problem(StatusCode::NOT_FOUND, "There is no such order."),
    })
}

fn problem(status: StatusCode, detail: &str) -> Response<Body> {
    let title = status.canonical_reason().unwrap_or_default();
    let mut response =
        json(status, &serde_json::json!({ "title": title, "status": status.as_u16(), "detail": detail }));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

fn json(status: StatusCode, content: &impl Serialize) -> Response<Body> {
    // Strings and numbers always serialise.
    let mut text = serde_json::to_vec(content).unwrap_or_default();
    text.push(b'\n');
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    /// The whole answer to one request on a connection of its own.
    async fn ask(shop: SocketAddr, line: &str, headers: &str, body: &str) -> String {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(shop).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        answer.await.unwrap()
    }

    #[tokio::test]
    async fn takes_orders_refuses_nonsense_and_loses_answers_when_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let open = tokio::spawn(shop(listener, async { drop(ended.await) }));
        let tea = r#"{"sku":"tea","quantity":1}"#;

        let first = ask(address, "POST /orders", "", tea).await;
        assert!(first.starts_with("HTTP/1.1 201 Created") && first.contains("location: /orders/o1"), "{first}");
        assert!(first.ends_with("{\"id\":\"o1\",\"sku\":\"tea\",\"quantity\":1}\n"), "{first}");
        for nonsense in ["", "{", r#"{"sku":"tea"}"#, r#"{"sku":"tea","quantity":0}"#, r#"{"sku":"","quantity":1}"#] {
            let refused = ask(address, "POST /orders", "", nonsense).await;
            assert!(refused.starts_with("HTTP/1.1 422"), "{nonsense}: {refused}");
        }
        assert_eq!(ask(address, "POST /orders", "Shop-Fault: lost-answer\r\n", tea).await, "");
        let after = ask(address, "POST /orders", "Shop-Fault: error-after\r\n", tea).await;
        assert!(after.starts_with("HTTP/1.1 500"), "{after}");
        let before = ask(address, "POST /orders", "Shop-Fault: error-before\r\n", tea).await;
        assert!(before.starts_with("HTTP/1.1 500"), "{before}");
        let busy = ask(address, "POST /orders", "Shop-Fault: busy\r\nShop-Delay-Ms: 20\r\n", tea).await;
        assert!(busy.starts_with("HTTP/1.1 503") && busy.contains("retry-after: 1"), "{busy}");

        let ledger = ask(address, "GET /orders", "", "").await;
        assert!(ledger.contains("{\"count\":3,"), "{ledger}");
        assert!(ask(address, "GET /orders/o3", "", "").await.starts_with("HTTP/1.1 200"));
        assert!(ask(address, "GET /orders/o4", "", "").await.starts_with("HTTP/1.1 404"));

        end.send(()).unwrap();
        open.await.unwrap();
        assert!(TcpStream::connect(address).is_err(), "the shop closed");
    }
}
