//! Clients that hang up, and servers that stop, while a handler runs.

use std::sync::Arc;
use std::time::Duration;

use super::support::{Ledger, layer, policy, request, send, store};
use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::StatusCode;
use tokio::sync::{Notify, Semaphore};
use tower::ServiceExt;

#[tokio::test]
async fn a_client_that_hangs_up_does_not_cancel_the_handler() {
    let kept = store().await;
    let (ledger, gate, entered) = (Ledger::default(), Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let (seen, opened, tell) = (ledger.clone(), Arc::clone(&gate), Arc::clone(&entered));
    let handler = move || async move {
        tell.notify_one();
        opened.acquire().await.unwrap().forget();
        seen.enter();
        StatusCode::CREATED
    };
    let layer = layer(&kept.store);
    let app = Router::new().route("/orders", post(handler).layer(layer.policy(policy())));
    let delivery = tokio::spawn(app.clone().oneshot(request("/orders", "k1", "{}")));
    entered.notified().await;
    delivery.abort();
    assert!(delivery.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    assert!(layer.drain(Duration::from_secs(10)).await, "the handler ends although nobody listens");
    let again = send(&app, request("/orders", "k1", "{}")).await;
    assert_eq!((again.status, again.replayed(), ledger.count()), (StatusCode::CREATED, true, 1));
}

#[tokio::test]
async fn a_client_that_hangs_up_at_any_poll_leaves_one_effect_at_most() {
    // Drops the request's future after n polls, for every n that it takes.
    for polls in 0..40 {
        let kept = store().await;
        let ledger = Ledger::default();
        let seen = ledger.clone();
        let handler = move || async move {
            tokio::task::yield_now().await;
            seen.enter();
            tokio::task::yield_now().await;
            StatusCode::CREATED
        };
        let layer = layer(&kept.store);
        let app = Router::new().route("/orders", post(handler).layer(layer.policy(policy())));
        let mut future = Box::pin(app.clone().oneshot(request("/orders", "k1", "{}")));
        for _ in 0..polls {
            if futures_util::FutureExt::now_or_never(&mut future).is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
        drop(future);
        assert!(layer.drain(Duration::from_secs(10)).await);
        let again = send(&app, request("/orders", "k1", "{}")).await;
        assert_eq!((again.status, ledger.count()), (StatusCode::CREATED, 1), "after {polls} polls");
    }
}

#[tokio::test]
async fn drain_says_whether_handlers_still_run() {
    let kept = store().await;
    let layer = layer(&kept.store);
    let entered = Arc::new(Notify::new());
    let tell = Arc::clone(&entered);
    let handler = move || {
        tell.notify_one();
        std::future::pending::<StatusCode>()
    };
    let app = Router::new().route("/orders", post(handler).layer(layer.policy(policy())));
    let _delivery = tokio::spawn(app.oneshot(request("/orders", "k1", "{}")));
    entered.notified().await;
    assert!(!layer.drain(Duration::from_millis(50)).await);
}

#[tokio::test]
async fn a_stream_goes_on_for_a_client_that_hung_up() {
    let kept = store().await;
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let (seen, opened) = (ledger.clone(), Arc::clone(&gate));
    let handler = move || async move {
        let stream = futures_util::stream::unfold(0, move |sent| {
            let (seen, opened) = (seen.clone(), Arc::clone(&opened));
            async move {
                if sent > 0 {
                    opened.acquire().await.unwrap().forget();
                    seen.enter();
                }
                (sent < 3).then(|| (Ok::<_, std::convert::Infallible>("data: x\n\n"), sent + 1))
            }
        });
        ([("content-type", "text/event-stream")], Body::from_stream(stream))
    };
    let layer = layer(&kept.store);
    let app = Router::new().route("/orders", post(handler).layer(layer.policy(policy())));
    let response = app.clone().oneshot(request("/orders", "k1", "{}")).await.unwrap();
    drop(response);
    gate.add_permits(3);
    assert!(layer.drain(Duration::from_secs(10)).await);
    assert_eq!(ledger.count(), 3, "the handler's stream was read to its end");
    assert_eq!(send(&app, request("/orders", "k1", "{}")).await.code(), "response_not_stored");
}
