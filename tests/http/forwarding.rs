//! What the upstream sees of a covered request.

use support::{Request, Serve, Upstream};

#[tokio::test]
async fn target_headers_and_body_arrive_as_they_were_sent() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let target = "/a//b/%7Ex/./%2e%2e;p=1?q=%20+&q=&&x[]=\u{7e}!$'()*,;:@/?";
    let every_byte: Vec<u8> = (0..=255).collect();
    let request = Request::post(target)
        .key("k-1")
        .header("X-Twice", "one")
        .header("x-twice", "two")
        .header("X-Bytes", b"caf\xe9")
        .header("X-Empty", "")
        .header("Cookie", "a=1; b=2")
        .body("application/octet-stream", &every_byte);
    samekey.send(&request).await.ran(201, "completed", 1);
    let received = upstream.ledger().last();
    assert_eq!(received.target, target);
    assert_eq!(received.body, every_byte);
    assert_eq!(received.headers.all("x-twice"), ["one", "two"]);
    assert_eq!(received.headers.bytes("x-bytes"), [b"caf\xe9"]);
    assert_eq!(received.headers.all("x-empty"), [""]);
    assert_eq!(received.headers.all("cookie"), ["a=1; b=2"]);
    assert_eq!(received.headers.all("authorization"), ["Bearer token-of-ann"]);
    assert_eq!(received.headers.all("content-type"), ["application/octet-stream"]);
    assert_eq!(received.headers.all("host"), ["shop.example"], "the application builds its links from it");
}

#[tokio::test]
async fn hop_by_hop_headers_stay_on_their_hop() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let hop = ["X-Hop", "Keep-Alive", "TE", "Trailer", "Proxy-Connection", "Upgrade"];
    let mut request = Request::order("k-1").header("Connection", "x-hop, Keep-Alive, TE, upgrade");
    for name in hop {
        request = request.header(name, "websocket");
    }
    samekey.send(&request).await.ran(201, "completed", 1);
    let received = upstream.ledger().last().headers;
    for name in hop {
        assert!(received.all(name).is_empty(), "{name} belongs to the hop");
    }
    let connection = received.all("connection").join(",").to_ascii_lowercase();
    assert!(!connection.contains("x-hop") && !connection.contains("upgrade"), "{connection}");
}

#[tokio::test]
async fn connection_cannot_strip_what_samekey_lives_on() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let nominated = "Idempotency-Key, Authorization, Content-Length, Samekey-Attempt, X-Request-Id";
    let request = Request::order("k-1").header("Connection", nominated);
    let first = samekey.send(&request).await;
    first.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().last().body, br#"{"sku":"tea","qty":1}"#);
    assert_eq!(upstream.ledger().last().headers.all("samekey-attempt"), ["1"]);
    samekey.send(&request).await.replays(&first);
    assert_eq!(upstream.ledger().count(), 1);
}

#[tokio::test]
async fn samekey_headers_of_a_client_never_reach_the_upstream() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let request = Request::order("k-1")
        .header("Samekey-Attempt", "9")
        .header("SAMEKEY-STATE", "completed")
        .header("Samekey-Provider-Key", "forged")
        .header("Samekey-Whatever", "1");
    samekey.send(&request).await.ran(201, "completed", 1);
    let received = upstream.ledger().last().headers;
    assert_eq!(received.all("samekey-attempt"), ["1"]);
    for name in ["samekey-state", "samekey-whatever"] {
        assert!(received.all(name).is_empty(), "{name}");
    }
    assert!(!received.all("samekey-provider-key").contains(&"forged".to_owned()));
}

#[tokio::test]
async fn a_request_id_is_kept_or_made() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::order("k-1").header("X-Request-Id", "r-17")).await.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().last().headers.all("x-request-id"), ["r-17"]);
    samekey.send(&Request::order("k-2")).await.ran(201, "completed", 1);
    let made = upstream.ledger().last().headers.one("x-request-id").expect("a request id");
    samekey.send(&Request::order("k-3")).await.ran(201, "completed", 1);
    let another = upstream.ledger().last().headers.one("x-request-id").expect("a request id");
    assert!(made.len() >= 8 && made != another, "{made} {another}");
}

#[tokio::test]
async fn a_chunked_request_arrives_whole_and_framed_once() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let body = vec![b'x'; 100_000];
    let request = Request::post("/files").key("k-1").body("text/plain", &body).chunked();
    samekey.send(&request).await.ran(201, "completed", 1);
    let received = upstream.ledger().last();
    assert_eq!(received.body, body);
    let framings = received.headers.all("content-length").len() + received.headers.all("transfer-encoding").len();
    assert_eq!(framings, 1, "{:?}", received.headers);
}

#[tokio::test]
async fn an_upstream_with_a_path_is_a_prefix() {
    let upstream = Upstream::start().await;
    let samekey = Serve::to(&format!("{}/", upstream.url())).start().await;
    samekey.send(&Request::order("k-1")).await.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().last().target, "/orders", "a final slash adds nothing");
}
