//! What a key is bound to, and where the layer stands in a router.

use super::support::{Ledger, layer, policy, request, send, store};
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::post;
use http::{Request, StatusCode};
use samekey::{Policy, Significant};

fn counting(ledger: &Ledger) -> impl Fn() -> std::future::Ready<StatusCode> + Clone + Send + Sync + 'static {
    let seen = ledger.clone();
    move || {
        seen.enter();
        std::future::ready(StatusCode::CREATED)
    }
}

#[tokio::test]
async fn another_payload_never_reaches_the_handler() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store).policy(policy())));
    send(&app, request("/orders", "k1", r#"{"sku":"tea"}"#)).await;
    for (path, body) in [("/orders", r#"{"sku":"tee"}"#), ("/orders?express=1", r#"{"sku":"tea"}"#), ("/orders", "")] {
        let answer = send(&app, request(path, "k1", body)).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (StatusCode::CONFLICT, "key_payload_mismatch"),
            "{path} {body}"
        );
        assert_eq!(answer.header("samekey-state"), "refused");
    }
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn insignificant_fields_do_not_count() {
    let kept = store().await;
    let ledger = Ledger::default();
    let policy = policy().significant(Significant::exclude(["/ui"]));
    let app = Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store).policy(policy)));
    for body in [r#"{"sku":"tea","ui":1}"#, r#"{"ui":{"theme":"dark"},"sku":"tea"}"#, r#"{"sku":"tea"}"#] {
        assert_eq!(send(&app, request("/orders", "k1", body)).await.status, StatusCode::CREATED);
    }
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn changed_significant_fields_do_not_turn_known_keys_into_mismatches() {
    let kept = store().await;
    let ledger = Ledger::default();
    let route = |policy: Policy| {
        Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store).policy(policy)))
    };
    send(&route(policy()), request("/orders", "k1", r#"{"sku":"tea","ui":1}"#)).await;
    let deployed = route(policy().significant(Significant::exclude(["/ui"])));
    let same = send(&deployed, request("/orders", "k1", r#"{"ui":1,"sku":"tea"}"#)).await;
    assert!(same.replayed(), "{same:?}");
    let differs = send(&deployed, request("/orders", "k1", r#"{"ui":2,"sku":"tea"}"#)).await;
    assert_eq!(differs.code(), "key_payload_mismatch", "bound under the profile it was made with");
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn path_parameters_count() {
    let kept = store().await;
    let handler = |Path(id): Path<String>| async move { id };
    let app = Router::new().route("/orders/{id}/pay", post(handler).layer(layer(&kept.store).policy(policy())));
    assert_eq!(send(&app, request("/orders/7/pay", "k1", "{}")).await.body, "7");
    assert!(send(&app, request("/orders/%37/pay", "k1", "{}")).await.replayed(), "decoded once, the same");
    assert_eq!(send(&app, request("/orders/8/pay", "k1", "{}")).await.code(), "key_payload_mismatch");
}

#[tokio::test]
async fn actors_and_operations_are_separate() {
    let kept = store().await;
    let ledger = Ledger::default();
    let route = |name: &'static str| post(counting(&ledger)).layer(layer(&kept.store).policy(Policy::new(name)));
    let app = Router::new().route("/orders", route("orders.create")).route("/refunds", route("refunds.create"));
    let mut bobs = request("/orders", "k1", "{}");
    bobs.headers_mut().insert("x-user", http::HeaderValue::from_static("bob"));
    for separate in [request("/orders", "k1", "{}"), bobs, request("/refunds", "k1", "{}")] {
        assert!(!send(&app, separate).await.replayed());
    }
    assert_eq!(ledger.count(), 3);
}

#[tokio::test]
async fn a_former_name_finds_the_record() {
    let kept = store().await;
    let ledger = Ledger::default();
    let route = |policy: Policy| {
        Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store).policy(policy)))
    };
    send(&route(Policy::new("orders.new")), request("/orders", "k1", "{}")).await;
    let renamed = route(Policy::new("orders.create").alias("orders.new"));
    assert!(send(&renamed, request("/orders", "k1", "{}")).await.replayed());
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn the_405_of_the_method_router_passes_and_leaves_the_key_free() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store).policy(policy())));
    let mut wrong = request("/orders", "k1", "{}");
    *wrong.method_mut() = http::Method::PATCH;
    let answer = send(&app, wrong).await;
    assert_eq!((answer.status, answer.header("samekey-state")), (StatusCode::METHOD_NOT_ALLOWED, "not_covered"));
    assert_eq!(answer.header("allow"), "POST");
    assert_eq!(send(&app, request("/orders", "k1", "{}")).await.status, StatusCode::CREATED);
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn nested_routers_do_not_share_automatic_names() {
    let kept = store().await;
    let ledger = Ledger::default();
    let inner = || Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store)));
    let app = Router::new().nest("/eu", inner()).nest("/us", inner());
    for path in ["/eu/orders", "/us/orders"] {
        assert!(!send(&app, request(path, "k1", "{}")).await.replayed(), "{path}");
    }
    assert_eq!(ledger.count(), 2);
}

#[tokio::test]
async fn a_keyed_request_without_an_actor_consumes_nothing() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store).policy(policy())));
    let mut nobody = request("/orders", "k1", "{}");
    nobody.headers_mut().remove("x-user");
    let answer = send(&app, nobody).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::UNAUTHORIZED, "actor_required"));
    assert_ne!(answer.header("www-authenticate"), "");
    assert_eq!(ledger.count(), 0);
}

#[tokio::test]
async fn anonymous_operations_take_keys_that_nobody_guesses() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = Router::new()
        .route("/subscribe", post(counting(&ledger)).layer(layer(&kept.store).policy(policy().anonymous(true))));
    let from_nobody = |key: &str| {
        let mut request = request("/subscribe", key, "{}");
        request.headers_mut().remove("x-user");
        request
    };
    assert_eq!(send(&app, from_nobody("order-17")).await.code(), "idempotency_key_invalid");
    let key = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
    assert_eq!(send(&app, from_nobody(key)).await.status, StatusCode::CREATED);
    assert!(send(&app, from_nobody(key)).await.replayed());
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn a_request_made_for_another_actor_is_refused() {
    let kept = store().await;
    let ledger = Ledger::default();
    let app = Router::new().route("/orders", post(counting(&ledger)).layer(layer(&kept.store).policy(policy())));
    let anns = send(&app, request("/orders", "k1", "{}")).await.headers["samekey-actor"].clone();
    for (user, code) in [("ann", ""), ("bob", "actor_changed")] {
        let mut again = request("/orders", "k1", "{}");
        again.headers_mut().insert("samekey-actor", anns.clone());
        again.headers_mut().insert("x-user", http::HeaderValue::from_static(user));
        assert_eq!(send(&app, again).await.code(), code, "{user}");
    }
    assert_eq!(ledger.count(), 1);
}

#[tokio::test]
async fn what_is_not_covered_passes_and_says_so_only_to_those_who_sent_a_key() {
    let kept = store().await;
    let handler = || async { ([("samekey-state", "completed"), ("samekey-outcome", "terminal")], "ledger") };
    let app = Router::new().route("/orders", axum::routing::any(handler).layer(layer(&kept.store).policy(policy())));
    for (keyed, state) in [(true, "not_covered"), (false, "")] {
        let mut request = Request::get("/orders").header("x-user", "ann");
        if keyed {
            request = request.header("idempotency-key", "k1");
        }
        let answer = send(&app, request.body(Body::empty()).unwrap()).await;
        assert_eq!((answer.header("samekey-state"), answer.header("samekey-outcome")), (state, ""));
    }
}
