//! What samekey has nothing to do with passes as if it were not there.

use support::raw::Connection;
use support::{Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn methods_that_are_not_covered_pass_every_time() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PURGE"] {
        for _ in 0..2 {
            let answer = samekey.send(&Request::new(method, "/orders/1").key("k-1").anonymous()).await;
            assert_eq!(answer.status, 201, "{method}");
            assert_eq!(answer.header("samekey-state").as_deref(), Some("not_covered"), "{method} carried a key");
            assert!(!answer.replayed());
        }
        let answer = samekey.send(&Request::new(method, "/orders/1")).await;
        assert_eq!((answer.status, answer.header("samekey-state")), (201, None), "{method} without a key");
    }
    assert_eq!(upstream.ledger().count(), 15);
}

#[tokio::test]
async fn a_head_request_passes_without_a_body() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    client.request(&Request::new("HEAD", "/orders").key("k-1")).await;
    let head = client.any_head().await;
    assert!(head.first_line.contains(" 201 "), "{}", head.first_line);
    assert_eq!(head.headers.one("samekey-state").as_deref(), Some("not_covered"));
    // The connection is still in step: the next answer is a head again, not bytes of a body.
    client.request(&Request::new("HEAD", "/orders")).await;
    assert!(client.any_head().await.first_line.contains(" 201 "));
}

#[tokio::test]
async fn a_post_without_a_key_passes_untouched() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for _ in 0..2 {
        upstream.next(Reply::json(500, "{}").header("Set-Cookie", "sid=1"));
        let answer = samekey.send(&Request::post("/login").json("{}").anonymous()).await;
        assert_eq!(answer.status, 500);
        assert_eq!(answer.headers_all("set-cookie"), ["sid=1"]);
        assert_eq!(answer.header("samekey-state"), None);
    }
    assert_eq!(upstream.ledger().count(), 2);
}

#[tokio::test]
async fn a_malformed_key_on_an_uncovered_method_is_not_our_business() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let answer = samekey.send(&Request::new("GET", "/orders").key("a, b").key("\"")).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("samekey-state").as_deref(), Some("not_covered"));
}

#[tokio::test]
async fn an_uncovered_body_of_any_size_streams_both_ways() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--max-body", "64KiB").set("--max-response", "64KiB");
    let samekey = serve.start().await;
    let big = vec![b'x'; 1024 * 1024];
    upstream.next(Reply::with(200, "application/octet-stream", &big));
    let answer = samekey.send(&Request::new("PUT", "/files/1").body("application/octet-stream", &big)).await;
    assert_eq!((answer.status, answer.body.len()), (200, big.len()));
    assert_eq!(upstream.ledger().last().body.len(), big.len());
    let gate = Gate::new();
    upstream.next(Reply::chunked(200, "text/plain", &[b"first"]).then_gated(&gate, &[b"second"]));
    let mut client = samekey.connect().await;
    client.request(&Request::new("GET", "/feed")).await;
    assert_eq!(client.opened().await.status, 200);
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"first");
    gate.open();
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"second");
}

#[tokio::test]
async fn a_get_with_upgrade_becomes_a_tunnel() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::raw("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: tea\r\n\r\npoured"));
    let mut client = Connection::open(samekey.addr).await;
    client.request(&Request::new("GET", "/live").header("Connection", "Upgrade").header("Upgrade", "tea")).await;
    let head = client.any_head().await;
    assert!(head.first_line.contains(" 101 "), "{}", head.first_line);
    assert_eq!(client.bytes(6).await, b"poured");
    assert_eq!(upstream.ledger().last().headers.all("upgrade"), ["tea"]);
}
