//! Which headers of an answer are stored, and how.

use support::{Reply, Request, Serve, Upstream};

#[tokio::test]
async fn repeated_headers_keep_their_order_and_bytes() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(
        Reply::json(201, "{}")
            .header("Link", "</b>; rel=\"next\"")
            .header("Vary", "Accept")
            .header("link", "</a>; rel=\"prev\", </c>")
            .header("VARY", "Origin,  Cookie")
            .header("Link", "")
            .header("Cache-Control", "no-store")
            .header("Cache-Control", "private=\"x\"")
            .header("ETag", "W/\"1\"")
            .header("Content-Language", "de")
            .header("Last-Modified", "Tue, 01 Dec 2026 00:00:00 GMT")
            .header("Content-Disposition", b"attachment; filename=\"caf\xe9.txt\""),
    );
    let first = samekey.send(&Request::order("k-1")).await;
    assert_eq!(first.headers_all("link"), ["</b>; rel=\"next\"", "</a>; rel=\"prev\", </c>", ""]);
    assert_eq!(first.headers_all("vary"), ["Accept", "Origin,  Cookie"]);
    assert_eq!(first.headers.bytes("content-disposition"), [b"attachment; filename=\"caf\xe9.txt\""]);
    samekey.send(&Request::order("k-1")).await.replays(&first);
}

#[tokio::test]
async fn a_cookie_is_delivered_once_and_never_replayed() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::json(200, "{}").header("Set-Cookie", "sid=s3cr3t").header("Set-Cookie", "theme=dark"));
    let first = samekey.send(&Request::order("k-1")).await;
    assert_eq!(first.headers_all("set-cookie"), ["sid=s3cr3t", "theme=dark"]);
    let again = samekey.send(&Request::order("k-1")).await;
    again.replays(&first);
    assert!(again.headers_all("set-cookie").is_empty());
}

#[tokio::test]
async fn only_headers_of_the_list_come_back_on_a_replay() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let names = ["X-Trace", "Authorization", "Authentication-Info", "Proxy-Authenticate", "Server-Timing", "Age"];
    let reply = names.iter().fold(Reply::json(200, "{}"), |reply, name| reply.header(name, "once"));
    upstream.next(reply.header("WWW-Authenticate", "Basic"));
    let first = samekey.send(&Request::order("k-1")).await;
    assert_eq!(first.header("x-trace").as_deref(), Some("once"));
    let again = samekey.send(&Request::order("k-1")).await;
    again.replays(&first);
    for name in names.iter().chain(&["WWW-Authenticate"]) {
        assert!(again.headers_all(name).is_empty(), "{name} is not stored");
    }
}

#[tokio::test]
async fn headers_named_by_connection_are_of_that_hop_only() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(
        Reply::json(200, "{}")
            .header("Connection", "X-Hop, etag")
            .header("X-Hop", "1")
            .header("ETag", "\"named\"")
            .header("Keep-Alive", "timeout=5")
            .header("Vary", "Accept"),
    );
    let first = samekey.send(&Request::order("k-1")).await;
    let again = samekey.send(&Request::order("k-1")).await;
    again.replays(&first);
    for answer in [&first, &again] {
        for name in ["x-hop", "etag", "keep-alive"] {
            assert!(answer.headers_all(name).is_empty(), "{name} belongs to the hop");
        }
        assert_eq!(answer.header("vary").as_deref(), Some("Accept"));
    }
}

#[tokio::test]
async fn trailers_are_not_stored() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n";
    upstream.next(Reply::raw(format!("{head}3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n")));
    let first = samekey.send(&Request::order("k-1")).await;
    first.ran(200, "completed", 1);
    assert_eq!(first.text(), "abc");
    let again = samekey.send(&Request::order("k-1")).await;
    again.replays(&first);
    assert!(again.trailers.0.is_empty() && again.header("trailer").is_none());
}

#[tokio::test]
async fn an_upstream_cannot_forge_a_receipt() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(
        Reply::json(201, "{}")
            .header("Samekey-State", "failed;attempt=99")
            .header("samekey-state", "none")
            .header("Samekey-Actor", "root")
            .header("Samekey-Future", "1")
            .header("Idempotent-Replayed", "true"),
    );
    let first = samekey.send(&Request::order("k-1")).await;
    first.ran(201, "completed", 1);
    let again = samekey.send(&Request::order("k-1")).await;
    again.replays(&first);
    for answer in [&first, &again] {
        assert_eq!(answer.headers.names_starting("samekey-"), ["samekey-state"], "only the receipt of samekey itself");
    }
}
