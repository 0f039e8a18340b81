//! What one server knows, the other answers; what cannot be used is said without a password.

use std::sync::Arc;
use std::time::Duration;

use support::{Gate, Postgres, Reply, Request, Serve, Upstream};

/// A server program before this upstream, on a database of its own.
pub(crate) fn serve(upstream: &Upstream, server: &Postgres, database: &str) -> Serve {
    Serve::before(upstream).env("SAMEKEY_STORE", &format!("{}?sslmode=disable", server.url(database)))
}

pub(crate) fn server() -> Option<Postgres> {
    tokio::task::block_in_place(|| Postgres::start(&[]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_on_another_host_is_woken_and_replays() {
    let Some(database) = server() else { return };
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"shared"}"#).header("Location", "/orders/1").gated(&gate));
    let of = serve(&upstream, &database, "postgres");
    let (one, two) = (of.start().await, of.start().await);
    assert!(one.out.text().contains("many hosts"), "{}", one.out.text());
    let first = one.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    let waiter = two.spawn(&Request::order("k"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiter.is_finished(), "it waits for the other host");
    gate.open();
    let first = first.await.expect("the first answer");
    let opened = std::time::Instant::now();
    waiter.await.expect("the waiter's answer").replays(&first);
    assert!(opened.elapsed() < Duration::from_secs(3), "woken, not timed out");
    two.send(&Request::order("k")).await.replays(&first);
    let other = Request::post("/orders").key("k").json("{}");
    two.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    let uuid = support::keys::v7();
    one.send(&Request::order(&uuid)).await.ran(201, "completed", 1);
    two.send(&Request::order(&uuid).actor("Bearer other")).await.refuses(409, "actor_changed", "ask", "none");
    assert_eq!((upstream.effects("k"), upstream.effects(&uuid)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_down_runs_nothing_and_comes_back_by_itself() {
    let Some(database) = server() else { return };
    let database = Arc::new(database);
    let upstream = Upstream::start().await;
    let server = serve(&upstream, &database, "postgres").start().await;
    server.send(&Request::order("before")).await.ran(201, "completed", 1);
    tokio::task::block_in_place(|| database.stop("immediate"));
    server.send(&Request::order("k")).await.refuses(503, "store_unavailable", "retry_same_key", "unknown");
    assert_eq!(upstream.effects("k"), 0);
    tokio::task::block_in_place(|| database.start_again());
    server.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert_eq!((upstream.effects("k"), upstream.effects("before")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_used_is_named_without_its_password() {
    let upstream = Upstream::start().await;
    for (url, hint) in [
        ("postgres://ann:s3cret@127.0.0.1:1/shop?sslmode=disable", "127.0.0.1:1/shop"),
        ("postgres://ann:s3cret@127.0.0.1:1/shop?sslmode=maybe", "sslmode"),
    ] {
        let (_, said) = Serve::before(&upstream).env("SAMEKEY_STORE", url).refused().await;
        assert!(said.contains(hint) && !said.contains("s3cret"), "{said}");
    }
}
