//! Effects of handlers under the layer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::post;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use samekey::{Actor, EffectError, IdempotencyLayer, Policy, ProviderKey, Reason, Recovery, Running, State, Store};
use tokio::sync::Semaphore;
use tower::ServiceExt;
use tower_http::timeout::TimeoutLayer;

use super::support::{Provider, bench, policy, quick, s};

pub(crate) fn layer(store: &Store, policy: Policy) -> IdempotencyLayer {
    IdempotencyLayer::new(store.clone()).actor(|_| Some(Actor::new("ann"))).policy(policy)
}

pub(crate) struct Heard {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    body: Bytes,
}

impl Heard {
    pub(crate) fn state(&self) -> &str {
        self.headers.get("samekey-state").map_or("", |state| state.to_str().unwrap())
    }
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
    pub(crate) fn problem(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
    pub(crate) fn code(&self) -> String {
        self.problem()["code"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) async fn send(app: &Router, key: &str) -> Heard {
    let request = Request::post("/").header("idempotency-key", key).body(Body::empty()).unwrap();
    let answer = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    Heard { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

/// The call's answer is lost.
async fn lose(running: &Running, provider: &Provider) -> EffectError {
    let call = |_: ProviderKey| async {
        provider.called();
        Err(EffectError::unknown("timed out"))
    };
    running.effect::<(), _, _>("charge", call).await.unwrap_err()
}

#[tokio::test]
async fn an_unknown_effect_makes_the_outcome_uncertain_whatever_failure_is_answered() {
    let (bench, provider) = (bench().await, Provider::default());
    let seen = provider.clone();
    let handler = |running: Running| async move {
        let error = lose(&running, &seen).await;
        match running.key().expose() {
            "as-it-is" => error.into_response(),
            "500" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            "402" => StatusCode::PAYMENT_REQUIRED.into_response(),
            "401" => StatusCode::UNAUTHORIZED.into_response(),
            "503" => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]).into_response(),
            "panic" => panic!("{error}"),
            other => panic!("{other}"),
        }
    };
    let app = Router::new().route("/", post(handler).layer(layer(&bench.store, policy())));
    for key in ["as-it-is", "500", "402", "401", "503", "panic"] {
        let calls = provider.calls();
        for _ in 0..2 {
            let heard = send(&app, key).await;
            assert_eq!((heard.code().as_str(), heard.state()), ("outcome_uncertain", "uncertain;attempt=1"), "{key}");
            assert!(heard.headers["link"].to_str().unwrap().contains("operation=checkout"), "{key}");
        }
        assert_eq!(provider.calls(), calls + 1, "{key}: it ran once");
    }
    assert_eq!(bench.record("401").await.reason, Some(Reason::EarlierAttempt));
}

#[tokio::test]
async fn a_success_stands_over_an_open_effect() {
    let (bench, provider) = (bench().await, Provider::default());
    let seen = provider.clone();
    let handler = |running: Running| async move {
        lose(&running, &seen).await;
        StatusCode::ACCEPTED
    };
    let app = Router::new().route("/", post(handler).layer(layer(&bench.store, policy())));
    for _ in 0..2 {
        assert_eq!(send(&app, "k1").await.status, StatusCode::ACCEPTED);
    }
    assert_eq!(provider.calls(), 1);
}

#[tokio::test]
async fn what_did_nothing_releases_the_key_and_goes_on_from_where_it_was() {
    let (bench, provider) = (bench().await, Provider::default());
    let (seen, carrier_is_up) = (provider.clone(), Arc::new(AtomicBool::new(false)));
    let up = Arc::clone(&carrier_is_up);
    let handler = |running: Running| async move {
        let charge: String = running.effect("charge", |_| async { Ok(seen.called()) }).await?;
        let ship = |_: ProviderKey| async {
            if up.load(Ordering::SeqCst) { Ok("p_1".to_owned()) } else { Err(EffectError::not_done("refused")) }
        };
        let parcel = running.effect::<String, _, _>("ship", ship).await?;
        Ok::<_, EffectError>((StatusCode::CREATED, format!("{charge} {parcel}")))
    };
    let app = Router::new().route("/", post(handler).layer(layer(&bench.store, policy())));
    let heard = send(&app, "k1").await;
    assert_eq!((heard.code().as_str(), heard.state()), ("operation_released", "released;attempt=1"));
    assert_eq!(heard.headers["retry-after"], "1");
    carrier_is_up.store(true, Ordering::SeqCst);
    let heard = send(&app, "k1").await;
    assert_eq!(
        (heard.status, heard.state(), &heard.body[..]),
        (StatusCode::CREATED, "completed;attempt=2", &b"ch_1 p_1"[..])
    );
    assert_eq!(provider.calls(), 1);
}

#[tokio::test]
async fn two_calls_at_once_need_two_names() {
    let (bench, provider) = (bench().await, Provider::default());
    let seen = provider.clone();
    let handler = |running: Running| async move {
        let call = |_: ProviderKey| async { Ok(seen.called()) };
        let (one, other): (Result<String, _>, Result<String, _>) =
            tokio::join!(running.effect("charge", call), running.effect("mail", call));
        one.and(other).map(|_| StatusCode::CREATED)
    };
    let app = Router::new().route("/", post(handler).layer(layer(&bench.store, policy())));
    assert_eq!(send(&app, "k1").await.status, StatusCode::CREATED);
    assert_eq!(provider.calls(), 2);
}

#[tokio::test]
async fn a_timeout_inside_drops_the_call_and_leaves_it_open() {
    let (bench, provider) = (bench().await, Provider::default());
    let seen = provider.clone();
    let handler = |running: Running| async move {
        let call = |_: ProviderKey| async {
            seen.called();
            std::future::pending().await
        };
        running.effect::<(), _, _>("charge", call).await.map(|()| StatusCode::CREATED)
    };
    let inner = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_millis(200));
    let stack = tower::ServiceBuilder::new().layer(layer(&bench.store, policy())).layer(inner);
    let app = Router::new().route("/", post(handler).layer(stack));
    for _ in 0..2 {
        assert_eq!(send(&app, "k1").await.code(), "outcome_uncertain");
    }
    let effects = bench.store.effects(bench.record("k1").await.id).await.unwrap();
    assert_eq!((effects.len(), effects[0].end, provider.calls()), (1, None, 1));
}

#[tokio::test]
async fn a_handler_that_hangs_is_dropped_before_its_record_may_be_settled() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::sqlite(folder.path().join("samekey.db")).await.unwrap();
    struct Dropped(Store, tokio::sync::mpsc::UnboundedSender<samekey::Timestamp>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.now());
        }
    }
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let for_handler = store.clone();
    let handler = move |running: Running| async move {
        let _guard = Dropped(for_handler, tell);
        running.effect::<(), _, _>("charge", |_| std::future::pending()).await.map(|()| StatusCode::CREATED)
    };
    let app = Router::new().route("/", post(handler).layer(layer(&store, quick())));
    assert_eq!(send(&app, "k1").await.code(), "upstream_timeout");
    let record = store.look(&Actor::new("ann"), "checkout", &"k1".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((record.state, record.reason), (State::Uncertain, Some(Reason::Deadline)));
    let dropped_at = told.recv().await.unwrap();
    assert!(dropped_at < record.settle_after.unwrap(), "{dropped_at:?} {:?}", record.settle_after);
}

#[tokio::test]
async fn a_late_handler_calls_nothing_more_and_a_rerun_does_not_release_what_it_did() {
    let (bench, provider, gate) = (bench().await, Provider::default(), Arc::new(Semaphore::new(0)));
    let (seen, opened) = (provider.clone(), Arc::clone(&gate));
    let handler = |running: Running| async move {
        let call = |_: ProviderKey| async { Ok(seen.called()) };
        let _: String = running.effect("charge", call).await?;
        if running.attempt() > 1 {
            return Ok(StatusCode::TOO_MANY_REQUESTS);
        }
        opened.acquire().await.unwrap().forget();
        let _: String = running.effect("ship", call).await?;
        Ok::<_, EffectError>(StatusCode::CREATED)
    };
    let rerun = policy().timeout(Duration::from_millis(300)).recovery(Recovery::Rerun);
    let app = Router::new().route("/", post(handler).layer(layer(&bench.store, rerun.clone())));
    assert_eq!(send(&app, "k1").await.code(), "upstream_timeout");
    assert_eq!(provider.calls(), 1);
    gate.add_permits(1);
    // The store saw the deadline pass, or hears of it: in both cases it is over.
    bench.hands.advance(rerun.timeout);
    let record = async || bench.record("k1").await;
    while record().await.reason != Some(Reason::Holder) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(provider.calls(), 1, "too late to ship");

    bench.hands.advance(rerun.probe_after() + s(1));
    let heard = send(&app, "k1").await;
    assert_eq!(
        (heard.code().as_str(), heard.state()),
        ("outcome_uncertain", "uncertain;attempt=2"),
        "{:?}",
        heard.body
    );
    assert_eq!(bench.record("k1").await.reason, Some(Reason::EarlierAttempt));
    assert_eq!(provider.calls(), 1, "the charge stands in the journal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_who_wait_for_what_ends_released_run_nothing() {
    let (bench, provider, gate) = (bench().await, Provider::default(), Arc::new(Semaphore::new(0)));
    let (seen, opened) = (provider.clone(), Arc::clone(&gate));
    let handler = || async move {
        seen.called();
        opened.acquire().await.unwrap().forget();
        StatusCode::TOO_MANY_REQUESTS
    };
    let mut limits = samekey::Limits::default();
    limits.waiters_per_key = 50;
    let patient = policy().wait(s(20), s(20));
    let layer = IdempotencyLayer::new(bench.store.clone()).limits(limits).actor(|_| Some(Actor::new("ann")));
    let app = Router::new().route("/", post(handler).layer(layer.policy(patient)));
    let deliver = || {
        let app = app.clone();
        tokio::spawn(async move { send(&app, "k1").await })
    };
    let first = deliver();
    while provider.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let deliveries: Vec<_> = (0..60).map(|_| deliver()).collect();
    // Those that find no seat hear so at once: when they are gone the others wait.
    while deliveries.iter().filter(|delivery| delivery.is_finished()).count() < 10 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().state(), "released;attempt=1");
    let mut waited = 0;
    for delivery in deliveries {
        let heard = delivery.await.unwrap();
        assert!(heard.headers.contains_key("retry-after"));
        match heard.code().as_str() {
            "operation_in_progress" => {}
            "operation_released" => waited += u32::from(heard.state() == "released;attempt=1"),
            other => panic!("{other}"),
        }
    }
    assert_eq!((waited, provider.calls()), (50, 1));
}
