//! The routes in the router of an application.

use super::support::{Answer, Kept, Ledger, layer, policy, request, send, store};
use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{Method, Request, StatusCode};
use samekey::{IdempotencyLayer, Policy, Significant};

fn app(kept: &Kept, ledger: &Ledger, change: impl Fn(IdempotencyLayer) -> IdempotencyLayer) -> Router {
    let idempotent = change(layer(&kept.store));
    let seen = ledger.clone();
    let create = move || {
        seen.enter();
        std::future::ready(StatusCode::CREATED)
    };
    let policy = policy().alias("orders.new").significant(Significant::exclude(["/ui"]));
    Router::new().route("/orders", post(create).layer(idempotent.policy(policy))).merge(idempotent.routes())
}

fn ask(method: Method, path: &str, key: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("idempotency-key", key).header("x-user", "ann");
    request.body(Body::empty()).unwrap()
}

fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test]
async fn the_status_finds_a_key_under_every_name_of_its_operation() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = app(&kept, &ledger, |layer| layer);
    send(&app, request("/orders", "k1", "{}")).await;
    for name in ["orders.create", "orders.new"] {
        let path = format!("/.well-known/samekey/status?operation={name}");
        let answer = send(&app, ask(Method::GET, &path, "k1")).await;
        assert_eq!((answer.status, answer.header("samekey-state")), (StatusCode::OK, "completed;attempt=1"));
        assert_eq!(json(&answer)["operation"], "orders.create");
        let nobody = Request::get(&path).header("idempotency-key", "k1").body(Body::empty()).unwrap();
        assert_eq!(send(&app, nobody).await.code(), "actor_required");
    }
    let other = ask(Method::GET, "/.well-known/samekey/status?operation=orders.pay", "k1");
    assert_eq!(send(&app, other).await.status, StatusCode::NOT_FOUND);
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn a_closed_key_never_reaches_the_handler() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = app(&kept, &ledger, |layer| layer);
    let close = || ask(Method::DELETE, "/.well-known/samekey/status?operation=orders.create", "k1");
    assert_eq!(json(&send(&app, close()).await)["state"], "closed");
    assert_eq!(send(&app, request("/orders", "k1", "{}")).await.code(), "key_closed");
    assert_eq!(send(&app, close()).await.status, StatusCode::OK);
    assert_eq!(ledger.count(), 0);
}

#[tokio::test]
async fn the_contract_names_each_operation_once() {
    let kept = store().await;
    let idempotent = layer(&kept.store);
    let of = |name: &'static str| post(|| async {}).layer(idempotent.policy(Policy::new(name)));
    let app: Router = Router::new()
        .route("/orders", of("orders.create"))
        .route("/v2/orders", of("orders.create"))
        .route("/refunds", of("refunds.create"))
        .merge(idempotent.routes());
    let answer = send(&app, ask(Method::GET, "/.well-known/samekey/contract", "-")).await;
    let names: Vec<_> = json(&answer)["operations"].as_array().unwrap().iter().map(|op| op["name"].clone()).collect();
    assert_eq!(names, ["orders.create", "refunds.create"]);
    let with = self::app(&kept, &Ledger::default(), |layer| layer);
    let answer = send(&with, ask(Method::GET, "/.well-known/samekey/contract", "-")).await;
    assert_eq!(json(&answer)["operations"][0]["significant"], serde_json::json!({ "exclude": ["/ui"] }));
}

#[tokio::test]
async fn the_prefix_stands_in_every_reference() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = app(&kept, &ledger, |layer| layer.public_prefix("/api/samekey".parse().unwrap()));
    let refused = send(&app, request("/orders", "a, b", "{}")).await;
    assert_eq!(json(&refused)["type"], "/api/samekey/problems/idempotency_key_invalid");
    assert_eq!(refused.header("link"), "</api/samekey/problems/idempotency_key_invalid>; rel=\"describedby\"");
    let page = send(&app, ask(Method::GET, "/api/samekey/problems/idempotency_key_invalid", "-")).await;
    assert!(page.body.starts_with(b"idempotency_key_invalid"));
    assert_eq!(send(&app, ask(Method::GET, "/.well-known/samekey/contract", "-")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_problem_of_the_handler_is_stored_as_it_was_given() {
    let kept = store().await;
    let idempotent = layer(&kept.store).public_prefix("/api/samekey".parse().unwrap());
    let handler = || async { samekey::Problem::new(samekey::Code::PayloadTooLarge, "Too many lines in the order.") };
    let app: Router = Router::new().route("/orders", post(handler).layer(idempotent.policy(policy())));
    let first = send(&app, request("/orders", "k1", "{}")).await;
    let again = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!(first.header("samekey-state"), "failed;attempt=1");
    assert!(again.replayed());
    assert_eq!(again.body, first.body);
}

#[tokio::test]
async fn a_listed_origin_may_send_commands_and_read_their_answers() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = app(&kept, &ledger, |layer| layer.cors(["https://app.example".parse().unwrap()]));
    let preflight = Request::options("/orders")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "idempotency-key");
    let asked = send(&app, preflight.body(Body::empty()).unwrap()).await;
    assert_eq!(asked.status, StatusCode::NO_CONTENT);
    assert_eq!(asked.header("access-control-allow-origin"), "https://app.example");
    let mut order = request("/orders", "k1", "{}");
    order.headers_mut().insert("origin", http::HeaderValue::from_static("https://app.example"));
    let answer = send(&app, order).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert!(answer.header("access-control-expose-headers").contains("samekey-state"));
    assert_eq!(ledger.count(), 1);
}
