//! First request, then retries after its end: the stored answer, and nothing happens twice.

use support::{Reply, Request, Serve, Upstream};

#[tokio::test]
async fn the_first_request_gets_the_handlers_own_answer() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::json(201, r#"{"id":"o-1"}"#).header("Location", "/orders/o-1").header("X-Own", "kept"));
    let first = samekey.send(&Request::order("k-1")).await;
    first.ran(201, "completed", 1);
    assert_eq!(first.header("location").as_deref(), Some("/orders/o-1"));
    assert_eq!(first.header("x-own").as_deref(), Some("kept"), "the first answer is the handler's, all of it");
    assert_eq!(first.json()["id"], "o-1");
    assert_eq!(upstream.ledger().last().body, br#"{"sku":"tea","qty":1}"#);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn a_retry_gets_the_stored_answer_and_the_handler_is_not_asked_again() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::order("k-1")).await;
    first.ran(201, "completed", 1);
    for _ in 0..3 {
        samekey.send(&Request::order("k-1")).await.replays(&first);
    }
    assert_eq!(upstream.effects("k-1"), 1);
    assert_ne!(samekey.send(&Request::order("k-2")).await.body, first.body, "another key is another order");
}

#[tokio::test]
async fn retries_on_one_kept_alive_connection_are_answered_like_any_other() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    let first = client.exchange(&Request::order("k-1")).await;
    for _ in 0..5 {
        client.exchange(&Request::order("k-1")).await.replays(&first);
    }
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn the_answer_outlives_a_restart() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::order("k-1")).await;
    let samekey = samekey.stop().await.start().await;
    samekey.send(&Request::order("k-1")).await.replays(&first);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn patch_is_covered_like_post() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let patch = Request::new("PATCH", "/orders/7").key("k-1").json(r#"{"qty":2}"#);
    let first = samekey.send(&patch).await;
    first.ran(201, "completed", 1);
    samekey.send(&patch).await.replays(&first);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn a_stored_refusal_is_replayed_as_that_refusal() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::json(422, r#"{"message":"no tea left"}"#));
    let first = samekey.send(&Request::order("k-1")).await;
    first.ran(422, "failed", 1);
    samekey.send(&Request::order("k-1")).await.replays(&first);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn an_empty_answer_is_not_a_missing_one() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::empty(204)).next(Reply::empty(200)).next(Reply::with(200, "text/plain", ""));
    for (key, status) in [("none", 204), ("no-type", 200), ("no-bytes", 200)] {
        let first = samekey.send(&Request::order(key)).await;
        first.ran(status, "completed", 1);
        let again = samekey.send(&Request::order(key)).await;
        again.replays(&first);
        assert!(again.body.is_empty());
        assert!(status != 204 || again.header("transfer-encoding").is_none(), "a 204 has no framing");
        assert_eq!(upstream.effects(key), 1);
    }
}

#[tokio::test]
async fn a_redirect_is_replayed_with_its_location() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::empty(303).header("Location", "/thanks?order=7#top"));
    let first = samekey.send(&Request::order("k-1")).await;
    first.ran(303, "completed", 1);
    let again = samekey.send(&Request::order("k-1")).await;
    again.replays(&first);
    assert_eq!(again.header("location").as_deref(), Some("/thanks?order=7#top"));
}

#[tokio::test]
async fn bodies_are_bytes_with_their_coding() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    // Not gzip at all: whoever decoded it on the way would fail or change it.
    let coded = Reply::with(200, "application/json", b"\x1f\x8b\x08\x00not really").header("Content-Encoding", "gzip");
    upstream.next(Reply::with(200, "application/octet-stream", &every_byte)).next(coded);
    let first = samekey.send(&Request::order("binary")).await;
    assert_eq!(first.body, every_byte);
    samekey.send(&Request::order("binary")).await.replays(&first);
    let first = samekey.send(&Request::order("coded").header("Accept-Encoding", "gzip")).await;
    assert_eq!(first.body, b"\x1f\x8b\x08\x00not really");
    let again = samekey.send(&Request::order("coded")).await;
    again.replays(&first);
    assert_eq!(again.header("content-encoding").as_deref(), Some("gzip"));
}

#[tokio::test]
async fn chunked_and_close_delimited_answers_are_stored_whole() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream
        .next(Reply::chunked(200, "text/plain", &[b"one ", b"two ", b"three"]))
        .next(Reply::until_close(200, "text/plain", "one two three"))
        .next(Reply::raw("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\none two three").then_close());
    for key in ["chunked", "until-close", "one-zero"] {
        let first = samekey.send(&Request::order(key)).await;
        first.ran(200, "completed", 1);
        assert_eq!(first.text(), "one two three", "{key}");
        samekey.send(&Request::order(key)).await.replays(&first);
        assert_eq!(upstream.effects(key), 1);
    }
}

#[tokio::test]
async fn interim_answers_are_not_the_answer() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    upstream.next(Reply::json(201, "{}").preceded_by(interim));
    let first = samekey.send(&Request::order("k-1")).await;
    first.ran(201, "completed", 1);
    samekey.send(&Request::order("k-1")).await.replays(&first);
}

#[tokio::test]
async fn answers_without_a_body_say_what_they_said() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\n";
    upstream.next(Reply::raw(head)).next(Reply::empty(304).header("ETag", "\"1\""));
    let mut client = samekey.connect().await;
    client.request(&Request::new("HEAD", "/file")).await;
    let head = client.any_head().await;
    assert_eq!(head.headers.one("content-length").as_deref(), Some("1234"), "of the answer to a GET");
    assert_eq!(head.headers.one("content-type").as_deref(), Some("text/plain; charset=iso-8859-1"));
    let fresh = client.exchange(&Request::new("GET", "/file")).await;
    assert_eq!((fresh.status, fresh.header("etag").as_deref()), (304, Some("\"1\"")));
    for status in [204, 304] {
        upstream.next(Reply::empty(status).header("ETag", "\"2\""));
        let order = Request::order(&format!("k-{status}"));
        let first = client.exchange(&order).await;
        first.ran(status, "completed", 1);
        let again = client.exchange(&order).await;
        again.replays(&first);
        assert_eq!(again.header("content-length"), None);
    }
}
