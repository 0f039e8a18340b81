//! What the upstream hears about where a request came from.

use support::upstream::Received;
use support::{Request, Serve, Upstream};

fn claims(request: Request) -> Request {
    request
        .header("Forwarded", "for=192.0.2.7;proto=https")
        .header("X-Forwarded-For", "192.0.2.7")
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "public.example")
        .header("X-Real-IP", "192.0.2.7")
        .header("Via", "2.0 edge")
}

fn heard(received: &Received) -> [Option<String>; 5] {
    ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "via"]
        .map(|name| received.headers.one(name))
}

fn some(texts: [&str; 5]) -> [Option<String>; 5] {
    texts.map(|text| Some(text.to_owned()))
}

#[tokio::test]
async fn a_trusted_proxy_is_believed_and_added_to() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for (n, request) in [Request::order("k"), Request::new("GET", "/orders")].into_iter().enumerate() {
        samekey.send(&claims(request)).await;
        let received = upstream.ledger().arrived(n + 1).await;
        let expected = [
            "for=192.0.2.7;proto=https, for=127.0.0.1;host=\"shop.example\";proto=http",
            "192.0.2.7, 127.0.0.1",
            "https",
            "public.example",
            "2.0 edge, 1.1 samekey",
        ];
        assert_eq!(heard(&received), some(expected));
        assert_eq!(received.headers.one("x-real-ip").as_deref(), Some("192.0.2.7"));
    }
}

#[tokio::test]
async fn nobody_else_is_believed() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--trusted-proxies", "192.0.2.0/24").start().await;
    for (n, request) in [Request::order("k"), Request::new("GET", "/orders")].into_iter().enumerate() {
        samekey.send(&claims(request).header("X_Forwarded_For", "192.0.2.7")).await;
        let received = upstream.ledger().arrived(n + 1).await;
        let expected = [
            "for=127.0.0.1;host=\"shop.example\";proto=http",
            "127.0.0.1",
            "http",
            "shop.example",
            "2.0 edge, 1.1 samekey",
        ];
        assert_eq!(heard(&received), some(expected));
        assert!(received.headers.all("x-real-ip").is_empty() && received.headers.all("x_forwarded_for").is_empty());
    }
}

#[tokio::test]
async fn they_do_not_count_for_the_key() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::order("k")).await;
    samekey.send(&claims(Request::order("k"))).await.replays(&first);
}
