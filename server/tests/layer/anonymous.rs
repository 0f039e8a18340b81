//! Where nothing but the key tells callers apart, and on the two sides of a sign-in.

use axum::Router;
use axum::routing::post;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, StatusCode};
use samekey::{Actor, ActorSource, IdempotencyLayer};

use crate::support::{Kept, Ledger, layer, policy, request, send, store};

const UUID: &str = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
const ULID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn app(layer: &IdempotencyLayer, ledger: &Ledger) -> Router {
    let ledger = ledger.clone();
    let handler = move || {
        let effect = ledger.enter();
        async move { (StatusCode::CREATED, effect.to_string()) }
    };
    Router::new().route("/subscribe", post(handler).layer(layer.policy(policy().anonymous(true))))
}

async fn open(source: Option<ActorSource>) -> (Kept, Ledger, Router) {
    let (kept, ledger) = (store().await, Ledger::default());
    let layer = source
        .map_or_else(|| layer(&kept.store), |source| IdempotencyLayer::new(kept.store.clone()).actor_source(source));
    let app = app(&layer, &ledger);
    (kept, ledger, app)
}

fn from(user: Option<&str>, key: &str) -> Request<axum::body::Body> {
    let mut request = request("/subscribe", key, "{}");
    request.headers_mut().remove("x-user");
    if let Some(user) = user {
        request.headers_mut().insert("x-user", HeaderValue::from_str(user).unwrap());
    }
    request
}

#[tokio::test]
async fn a_ulid_is_as_good_a_secret_as_a_uuid() {
    let (_kept, ledger, app) = open(None).await;
    for guessable in ["order-17", "01ARZ3NDEKTSV4RRFFQ69G5FA", "f81d4fae7dec41d0a76500a0c91e6bf6"] {
        assert_eq!(send(&app, from(None, guessable)).await.code(), "idempotency_key_invalid", "{guessable}");
        assert_eq!(send(&app, from(Some("ann"), guessable)).await.status, StatusCode::CREATED, "ann's own");
    }
    let before = ledger.count();
    for key in [UUID, ULID] {
        let first = send(&app, from(None, key)).await;
        assert_eq!((first.status, first.header("samekey-actor")), (StatusCode::CREATED, ""));
        assert!(send(&app, from(None, key)).await.replayed());
    }
    assert_eq!(ledger.count(), before + 2);
}

/// A form that was sent as nobody, and again after its sender signed in, is one intent.
#[tokio::test]
async fn a_sign_in_between_two_deliveries_does_not_run_the_command_again() {
    for (first, second) in [(None, Some("ann")), (Some("ann"), None), (Some("ann"), Some("bob"))] {
        let (_kept, ledger, app) = open(None).await;
        for (key, ran) in [(UUID, 1), (ULID, 2)] {
            assert_eq!(send(&app, from(first, key)).await.status, StatusCode::CREATED);
            let after = send(&app, from(second, key)).await;
            assert_eq!((after.status, after.code().as_str()), (StatusCode::CONFLICT, "actor_changed"), "{second:?}");
            assert_eq!(ledger.count(), ran);
            assert!(send(&app, from(first, key)).await.replayed());
        }
    }
}

/// Taken for nobody, who says who it is twice would run a second command beside its own.
#[tokio::test]
async fn an_unbelievable_caller_is_not_taken_for_nobody() {
    let (_kept, ledger, app) = open(Some(ActorSource::credentials())).await;
    let mut two = from(None, UUID);
    for line in ["Bearer a", "Bearer b"] {
        two.headers_mut().append(AUTHORIZATION, HeaderValue::from_static(line));
    }
    let answer = send(&app, two).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::UNAUTHORIZED, "actor_required"));
    assert_eq!(ledger.count(), 0);
    assert_eq!(send(&app, from(None, UUID)).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn one_actor_for_all_has_no_tag_and_takes_only_keys_that_nobody_guesses() {
    let (_kept, ledger, app) = open(Some(ActorSource::constant(Actor::new("shop")))).await;
    assert_eq!(send(&app, from(None, "order-17")).await.code(), "idempotency_key_invalid");
    for key in [UUID, ULID] {
        let first = send(&app, from(Some("ann"), key)).await;
        assert_eq!((first.status, first.header("samekey-actor")), (StatusCode::CREATED, ""));
        let mut bobs = from(Some("bob"), key);
        bobs.headers_mut().insert("samekey-actor", HeaderValue::from_static("somebody"));
        assert!(send(&app, bobs).await.replayed());
    }
    assert_eq!(ledger.count(), 2);
}
