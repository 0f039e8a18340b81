//! The fixtures against each other, without samekey: a suite whose tools lie proves nothing.

use std::time::Duration;
use support::patience::within;
use support::raw::{Connection, send};
use support::{Gate, Receipt, Reply, Request, Upstream, keys};

#[tokio::test]
async fn fixture_the_ledger_counts_each_effect_of_a_key() {
    let upstream = Upstream::start().await;
    for _ in 0..3 {
        assert_eq!(send(upstream.addr(), &Request::order("k-1")).await.status, 201);
    }
    send(upstream.addr(), &Request::order("\"k-1\"").chunked()).await;
    assert_eq!(upstream.effects("k-1"), 4);
    assert_eq!(upstream.effects("k-2"), 0);
    let last = upstream.ledger().last();
    assert_eq!((last.method.as_str(), last.target.as_str()), ("POST", "/orders"));
    assert_eq!(last.body, br#"{"sku":"tea","qty":1}"#);
    assert_eq!(upstream.ledger().connections(), 4);
}

#[tokio::test]
async fn fixture_answers_arrive_as_scripted() {
    let upstream = Upstream::start().await;
    upstream
        .next(Reply::json(200, "{}").header("Link", "<a>").header("link", "<b>").header("X-Bytes", b"\xff\xfe"))
        .next(Reply::empty(204))
        .next(Reply::chunked(200, "text/plain", &[b"a", b"bc"]).preceded_by("HTTP/1.1 103 Early\r\n\r\n"))
        .next(Reply::until_close(200, "text/plain", "to the end"));
    let mut client = Connection::open(upstream.addr()).await;
    let request = Request::order("k");
    let first = client.exchange(&request).await;
    assert_eq!(first.headers_all("LINK"), ["<a>", "<b>"]);
    assert_eq!(first.headers.bytes("x-bytes"), [b"\xff\xfe"]);
    assert_eq!(client.exchange(&request).await.status, 204);
    assert_eq!(client.exchange(&request).await.text(), "abc");
    let last = client.exchange(&request).await;
    assert_eq!((last.text().as_str(), last.whole), ("to the end", true));
}

#[tokio::test]
async fn fixture_faults_look_like_faults() {
    let upstream = Upstream::start().await;
    upstream
        .next(Reply::reset())
        .next(Reply::hang_up())
        .next(Reply::json(200, "{}").truncated())
        .next(Reply::chunked(200, "text/plain", &[b"abc"]).truncated())
        .next(Reply::chunked(200, "text/plain", &[b"abc"]).truncated().then_reset());
    let request = Request::order("k");
    let mut client = Connection::open(upstream.addr()).await;
    client.request(&request).await;
    assert_eq!(client.try_answer().await.expect_err("a reset").kind(), std::io::ErrorKind::ConnectionReset);
    let mut client = Connection::open(upstream.addr()).await;
    client.request(&request).await;
    assert_eq!(client.try_answer().await.expect_err("an end").kind(), std::io::ErrorKind::UnexpectedEof);
    for _ in 0..3 {
        assert!(!send(upstream.addr(), &request).await.whole);
    }
    assert_eq!(upstream.effects("k"), 5, "each fault came after the effect");
}

#[tokio::test]
async fn fixture_a_gate_holds_and_an_abandoned_request_is_noticed() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script({
        let gate = gate.clone();
        move |_| Reply::json(200, "{}").gated(&gate)
    });
    let mut client = Connection::open(upstream.addr()).await;
    client.request(&Request::order("left")).await;
    upstream.ledger().arrived(1).await;
    client.reset();
    within(Duration::from_secs(5), "noticing", upstream.ledger().abandoned(1)).await;
    let addr = upstream.addr();
    let held = tokio::spawn(async move { send(addr, &Request::order("held")).await });
    upstream.ledger().arrived(2).await;
    assert!(!held.is_finished());
    gate.open();
    assert_eq!(held.await.expect("an answer").status, 200);
}

#[tokio::test]
async fn fixture_an_unreachable_upstream_keeps_its_port() {
    let upstream = Upstream::unreachable();
    assert!(Connection::try_open(upstream.addr()).await.is_err());
    upstream.accept();
    assert_eq!(send(upstream.addr(), &Request::order("k")).await.status, 201);
    upstream.refuse().await;
    assert!(Connection::try_open(upstream.addr()).await.is_err());
    upstream.accept();
    assert_eq!(send(upstream.addr(), &Request::order("k")).await.status, 201);
}

#[tokio::test]
async fn fixture_reused_and_idle_connections_can_be_reset() {
    let upstream = Upstream::start().await;
    upstream.reset_reused();
    let mut client = Connection::open(upstream.addr()).await;
    assert_eq!(client.exchange(&Request::order("a")).await.status, 201);
    client.request(&Request::order("b")).await;
    assert!(client.try_answer().await.is_err());
    upstream.behave();
    upstream.reset_after_idle(Duration::from_millis(100));
    let mut client = Connection::open(upstream.addr()).await;
    assert_eq!(client.exchange(&Request::order("c")).await.status, 201);
    tokio::time::sleep(Duration::from_millis(150)).await;
    client.request(&Request::order("d")).await;
    assert!(client.try_answer().await.is_err());
    assert_eq!((upstream.effects("b"), upstream.effects("d")), (0, 0), "reset before it was read");
}

#[test]
fn fixture_keys_are_uuids_of_their_version() {
    for (key, version) in [(keys::v4(), '4'), (keys::v7(), '7'), (keys::v7_aged(Duration::from_secs(86_400)), '7')] {
        assert_eq!(key.len(), 36, "{key}");
        assert_eq!(key.chars().nth(14), Some(version), "{key}");
        assert!("89ab".contains(key.chars().nth(19).expect("a variant")), "{key}");
    }
    assert!(keys::v7_aged(Duration::from_secs(60)) < keys::v7());
}

#[test]
fn fixture_the_receipt_is_read_strictly() {
    let receipt = Receipt::parse("failed;effect=unknown;attempt=2");
    assert_eq!((receipt.state.as_str(), receipt.attempt), ("failed", Some(2)));
    assert_eq!(receipt.effect.as_deref(), Some("unknown"));
    for wrong in ["done", "completed; attempt", "completed;attempt=0", "completed;x=1", "refused;attempt=1"] {
        assert!(std::panic::catch_unwind(|| Receipt::parse(wrong)).is_err(), "{wrong}");
    }
}
