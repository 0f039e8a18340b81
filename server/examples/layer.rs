//! The layer around axum handlers: an actor from the authentication, a policy per route, an external call, shutdown.
//!
//! ```console
//! $ cargo run -p samekey --example layer
//! $ curl -i localhost:3000/orders -H 'X-User: ann' -H 'Idempotency-Key: k1' -H 'Content-Type: application/json' -d '{"sku":"tea"}'
//! $ curl -i -X POST localhost:3000/orders/o1/pay -H 'X-User: ann' -H 'Idempotency-Key: k2'
//! ```

use std::time::Duration;

use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use samekey::{Actor, EffectError, IdempotencyLayer, KeyRule, Policy, Recovery, ResultId, Running, Significant, Store};

#[derive(Clone)]
struct CurrentUser {
    id: String,
}

/// Stands for your authentication.
async fn auth(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let user = request.headers().get("x-user").and_then(|user| user.to_str().ok());
    let user = CurrentUser { id: user.ok_or(StatusCode::UNAUTHORIZED)?.to_owned() };
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

async fn place(Json(_): Json<serde_json::Value>) -> (StatusCode, ResultId, &'static str) {
    (StatusCode::CREATED, ResultId::new("o1"), "{\"id\":\"o1\"}")
}

async fn pay(running: Running, Path(order): Path<String>) -> Result<Json<String>, EffectError> {
    let call = |key: samekey::ProviderKey| async move {
        charge(key.as_str(), &order).await.map_err(EffectError::unknown) // a timeout: nobody knows
    };
    let id: String = running.effect("charge", call).await?;
    Ok(Json(id))
}

/// Stands for the call of a payment provider, which takes an idempotency key of its own.
async fn charge(key: &str, order: &str) -> Result<String, std::io::Error> {
    match order {
        "lost" => Err(std::io::ErrorKind::TimedOut.into()),
        _ => Ok(format!("ch_{}", &key[..8])),
    }
}

fn app(idempotent: &IdempotencyLayer) -> Router {
    let place_policy = Policy::new("orders.create").alias("POST /orders").significant(Significant::exclude(["/ui"]));
    let pay_policy =
        Policy::new("orders.pay").key(KeyRule::Required).recovery(Recovery::Manual).timeout(Duration::from_secs(20));
    Router::new()
        .route("/orders", post(place).layer(idempotent.policy(place_policy)))
        .route("/orders/{id}/pay", post(pay).layer(idempotent.policy(pay_policy)))
        .merge(idempotent.routes()) // status, contract, problem pages; inside the authentication, so that status knows the caller
        .layer(from_fn(auth)) // added last, runs first: the actor is known before the key is looked at
}

fn layer(store: &Store) -> IdempotencyLayer {
    IdempotencyLayer::new(store.clone())
        .actor(|parts| parts.extensions.get::<CurrentUser>().map(|user| Actor::new(&user.id)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::sqlite("samekey.db").await?;
    let idempotent = layer(&store);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, app(&idempotent)).with_graceful_shutdown(stop).await?;
    // Handlers outlive the connections of their clients.
    if !idempotent.drain(Duration::from_secs(25)).await {
        tracing::warn!("handlers still run: their records become uncertain");
    }
    store.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn send(app: &Router, path: &str, key: Option<&str>, body: &'static str) -> (StatusCode, String, String) {
        let mut request = Request::post(path).header("x-user", "ann").header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let state = answer.headers().get("samekey-state").map_or("", |state| state.to_str().unwrap()).to_owned();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, state, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_route_keeps_its_own_contract() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::sqlite(folder.path().join("samekey.db")).await.unwrap();
        let idempotent = layer(&store);
        let app = app(&idempotent);

        let first = send(&app, "/orders", Some("k1"), r#"{"sku":"tea","ui":1}"#).await;
        assert_eq!((first.0, first.1.as_str()), (StatusCode::CREATED, "completed;attempt=1"));
        assert_eq!(send(&app, "/orders", Some("k1"), r#"{"ui":2,"sku":"tea"}"#).await, first, "ui does not count");
        assert_eq!(send(&app, "/orders", Some("k1"), r#"{"sku":"jam"}"#).await.0, StatusCode::CONFLICT);
        assert_eq!(send(&app, "/orders", None, "{}").await.0, StatusCode::CREATED, "a key is optional here");
        assert_eq!(send(&app, "/orders/o1/pay", None, "").await.0, StatusCode::BAD_REQUEST, "and required there");

        let paid = send(&app, "/orders/o1/pay", Some("k2"), "").await;
        assert_eq!((paid.0, paid.1.as_str()), (StatusCode::OK, "completed;attempt=1"));
        assert_eq!(send(&app, "/orders/o1/pay", Some("k2"), "").await, paid, "one charge");
        for _ in 0..2 {
            let lost = send(&app, "/orders/lost/pay", Some("k3"), "").await;
            assert_eq!((lost.0, lost.1.as_str()), (StatusCode::CONFLICT, "uncertain;attempt=1"), "{}", lost.2);
        }
        assert!(idempotent.drain(Duration::from_secs(5)).await);
        store.close().await;
    }
}
