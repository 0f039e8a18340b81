//! What handlers may do: answer, panic, time out inside, release, stream.

use super::support::{Ledger, layer, policy, request, send, store};
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::post;
use http::StatusCode;
use samekey::Running;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer;

#[tokio::test]
async fn a_retry_gets_the_first_answer_byte_for_byte() {
    let kept = store().await;
    let ledger = Ledger::default();
    let seen = ledger.clone();
    let handler = move || async move {
        let id = seen.enter();
        let headers = [("location", format!("/orders/{id}")), ("etag", "\"v1\"".into()), ("set-cookie", "s=1".into())];
        (StatusCode::CREATED, headers, format!("{{\"id\":{id}}}"))
    };
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(policy())));

    let first = send(&app, request("/orders", "k1", "{}")).await;
    let again = send(&app, request("/orders", "k1", " { } ")).await;
    assert_eq!((first.status, first.header("samekey-state")), (StatusCode::CREATED, "completed;attempt=1"));
    assert_eq!(first.header("set-cookie"), "s=1");
    assert!(!first.replayed() && again.replayed());
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    for name in ["location", "etag", "content-type", "samekey-state", "samekey-actor"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    assert_eq!(again.header("set-cookie"), "", "a cookie is given once");
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn a_panic_is_stored_as_failed_with_effect_unknown() {
    let kept = store().await;
    let ledger = Ledger::default();
    let seen = ledger.clone();
    let handler = move || async move {
        seen.enter();
        if seen.count() > 0 {
            panic!("after the effect");
        }
        StatusCode::OK
    };
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(policy())));
    for replayed in [false, true, true] {
        let answer = send(&app, request("/orders", "k1", "{}")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.header("samekey-state"), "failed;effect=unknown;attempt=1");
        assert_eq!(answer.header("stripe-should-retry"), "false");
        assert_eq!(answer.replayed(), replayed);
    }
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn a_transactional_handler_that_panics_is_released() {
    let kept = store().await;
    let ledger = Ledger::default();
    let seen = ledger.clone();
    let handler = move || async move {
        assert!(seen.enter() > 1, "the first run rolls back");
        StatusCode::CREATED
    };
    let transactional = policy().transactional(true);
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(transactional)));
    let first = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!(first.header("samekey-state"), "released;attempt=1");
    let again = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!((again.status, again.header("samekey-state")), (StatusCode::CREATED, "completed;attempt=2"));
}

#[tokio::test]
async fn a_timeout_layer_inside_makes_the_outcome_uncertain() {
    let kept = store().await;
    let ledger = Ledger::default();
    let seen = ledger.clone();
    let handler = move || async move {
        seen.enter();
        std::future::pending::<()>().await;
    };
    let inner = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_millis(20));
    let stack = tower::ServiceBuilder::new().layer(layer(&kept.store).policy(policy())).layer(inner);
    let app = Router::new().route("/orders", post(handler).layer(stack));
    for _ in 0..2 {
        let answer = send(&app, request("/orders", "k1", "{}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::CONFLICT, "outcome_uncertain"));
        assert_eq!(answer.header("samekey-state"), "uncertain;attempt=1");
    }
    assert_eq!(ledger.count(), 1, "the dropped handler may have had its effect: it never runs again by itself");
}

#[tokio::test]
async fn a_catch_panic_layer_inside_is_a_stored_500() {
    let kept = store().await;
    let ledger = Ledger::default();
    let seen = ledger.clone();
    let handler = move || async move {
        seen.enter();
        assert_eq!(seen.count(), 0, "the handler runs once");
        StatusCode::OK
    };
    let stack = tower::ServiceBuilder::new().layer(layer(&kept.store).policy(policy())).layer(CatchPanicLayer::new());
    let app = Router::new().route("/orders", post(handler).layer(stack));
    for replayed in [false, true] {
        let answer = send(&app, request("/orders", "k1", "{}")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.header("samekey-state"), "failed;effect=unknown;attempt=1");
        assert_eq!(answer.replayed(), replayed);
    }
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn a_503_from_inside_is_believed_only_with_retry_after() {
    let kept = store().await;
    let ledger = Ledger::default();
    let seen = ledger.clone();
    let handler = move |request: axum::extract::Request| async move {
        seen.enter();
        let mut answer = StatusCode::SERVICE_UNAVAILABLE.into_response();
        if request.headers().contains_key("x-shed") {
            answer.headers_mut().insert("retry-after", http::HeaderValue::from_static("0"));
        }
        answer
    };
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(policy())));
    let unknown = send(&app, request("/orders", "after-the-effect", "{}")).await;
    assert_eq!(unknown.code(), "outcome_uncertain");
    let mut shed = request("/orders", "shed", "{}");
    shed.headers_mut().insert("x-shed", http::HeaderValue::from_static("1"));
    let shed = send(&app, shed).await;
    assert_eq!((shed.status, shed.header("samekey-state")), (StatusCode::SERVICE_UNAVAILABLE, "released;attempt=1"));
    send(&app, request("/orders", "shed", "{}")).await;
    assert_eq!(ledger.count(), 3, "the released one ran again");
}

#[tokio::test]
async fn the_handler_knows_its_claim() {
    let kept = store().await;
    let handler = |running: Running, request: axum::extract::Request| async move {
        let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("samekey-attempt"), running.attempt().to_string());
        assert_eq!(header("samekey-provider-key"), running.provider_key());
        assert!(!request.headers().contains_key("samekey-state"), "nobody else's fields arrive");
        let status = if running.attempt() == 1 { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
        (status, format!("{} {}", running.key().expose(), running.provider_key()))
    };
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(policy())));
    let mut forged = request("/orders", "k1", "{}");
    forged.headers_mut().insert("samekey-state", http::HeaderValue::from_static("completed"));
    forged.headers_mut().insert("samekey-attempt", http::HeaderValue::from_static("9"));
    let first = send(&app, forged).await;
    assert_eq!((first.status, first.header("samekey-state")), (StatusCode::UNAUTHORIZED, "released;attempt=1"));
    let second = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!((second.status, second.header("samekey-state")), (StatusCode::OK, "completed;attempt=2"));
    assert_eq!(first.body, second.body, "key and provider key are the same on every attempt");
}

#[tokio::test]
async fn a_large_answer_streams_and_its_retry_hears_where_the_result_is() {
    let kept = store().await;
    let handler = || async {
        let headers = [("location", "/orders/o7")];
        (StatusCode::CREATED, headers, Body::from("x".repeat(5000)))
    };
    let small = policy().max_response(1000);
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(small)));
    let first = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!((first.status, first.body.len()), (StatusCode::CREATED, 5000));
    let again = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!((again.status, again.code().as_str()), (StatusCode::CONFLICT, "response_not_stored"));
    assert_eq!(again.header("samekey-state"), "completed;attempt=1");
    assert_eq!(again.header("location"), "/orders/o7");
    let problem: serde_json::Value = serde_json::from_slice(&again.body).unwrap();
    assert_eq!(
        (&problem["status_code"], &problem["result_id"], &problem["next"]),
        (&201.into(), &"o7".into(), &"done".into())
    );
}

#[tokio::test]
async fn an_answer_that_is_slow_after_its_head_streams_after_hold() {
    let kept = store().await;
    let (send_rest, rest) = tokio::sync::oneshot::channel::<&'static str>();
    let rest = std::sync::Arc::new(std::sync::Mutex::new(Some(rest)));
    let handler = move || {
        let rest = rest.lock().unwrap().take().unwrap();
        async move {
            let head = futures_util::stream::once(async { Ok::<_, std::convert::Infallible>("head ") });
            let tail = futures_util::stream::once(async move { Ok(rest.await.unwrap()) });
            Body::from_stream(futures_util::StreamExt::chain(head, tail))
        }
    };
    let quick = policy().hold(Duration::from_millis(20));
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(quick)));
    let response = tower::ServiceExt::oneshot(app.clone(), request("/orders", "k1", "{}")).await.unwrap();
    // The head is here while the body is not: the record ended, the retry is not run.
    let again = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!(again.code(), "response_not_stored");
    send_rest.send("tail").unwrap();
    assert_eq!(super::support::read(response).await.body, "head tail");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_uncertain() {
    let kept = store().await;
    let handler =
        || async { Body::from_stream(futures_util::stream::iter([Ok("half"), Err(std::io::Error::other("broke"))])) };
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(policy())));
    for _ in 0..2 {
        assert_eq!(send(&app, request("/orders", "k1", "{}")).await.code(), "outcome_uncertain");
    }
}
