//! What a handler says of its answer.

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use samekey::{Keep, Means, OutcomeClass, ResultId};

use super::handlers::{layer, send};
use super::support::{bench, policy};

#[tokio::test]
async fn the_result_id_outlives_the_answer() {
    let bench = bench().await;
    let handler = || async { (StatusCode::CREATED, ResultId::new("o7"), [("location", "/orders/17")], "{}") };
    let app = Router::new().route("/", post(handler).layer(layer(&bench.store, policy().keep(Keep::Status))));
    assert_eq!(send(&app, "k1").await.status, StatusCode::CREATED);
    let again = send(&app, "k1").await;
    assert_eq!((again.code(), again.problem()["result_id"].as_str()), ("response_not_stored".into(), Some("o7")));
    assert_eq!(bench.record("k1").await.result_id.as_deref(), Some("o7"));
}

#[tokio::test]
async fn the_handler_has_the_last_word_on_its_answer() {
    use OutcomeClass::{Released, Terminal, Uncertain};
    let bench = bench().await;
    for (key, status, class, state) in [
        ("k1", StatusCode::NOT_FOUND, Released, "released;attempt=1"),
        ("k2", StatusCode::CREATED, Released, "uncertain;attempt=1"),
        ("k3", StatusCode::CREATED, Uncertain, "uncertain;attempt=1"),
        ("k4", StatusCode::SERVICE_UNAVAILABLE, Terminal, "failed;effect=unknown;attempt=1"),
        ("k5", StatusCode::TOO_MANY_REQUESTS, Terminal, "failed;attempt=1"),
    ] {
        let by_part = move || async move { (status, Means(class), "") };
        let word = match class {
            Released => "released",
            Uncertain => "uncertain",
            Terminal => "terminal",
        };
        let by_header = move || async move { (status, [("samekey-outcome", word)], "") };
        let layer = layer(&bench.store, policy());
        let app = Router::new().route("/", post(by_part).layer(layer.clone()));
        assert_eq!(send(&app, key).await.state(), state, "{key}");
        let app = Router::new().route("/", post(by_header).layer(layer));
        let answer = send(&app, &format!("{key}-by-header")).await;
        assert_eq!(answer.state(), state, "{key}");
        assert!(!answer.headers.contains_key("samekey-outcome"), "that is between the two");
    }
}

#[tokio::test]
async fn what_a_handler_may_log_holds_no_secret() {
    let bench = bench().await;
    let handler = |running: samekey::Running| async move { format!("{running:?}") };
    let app = Router::new().route("/", post(handler).layer(layer(&bench.store, policy())));
    let heard = send(&app, "a-key-that-is-a-secret").await;
    assert!(heard.text().contains("checkout"), "{}", heard.text());
    for secret in ["a-key-that-is-a-secret", "ann", "secret"] {
        assert!(!heard.text().contains(secret), "{}", heard.text());
    }
    assert_eq!(format!("{:?}", bench.store), "Store { .. }");
}
