//! Bodies over the limits, in both directions.

use std::time::Duration;
use support::patience::within;
use support::{Reply, Request, Serve, Server, Upstream};

async fn limited() -> (Upstream, Server) {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--max-body", "64KiB").set("--max-response", "64KiB");
    let samekey = serve.start().await;
    (upstream, samekey)
}

fn of_size(key: &str, size: usize) -> Request {
    Request::post("/files").key(key).body("application/octet-stream", vec![b'x'; size])
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_and_without_a_length() {
    let (upstream, samekey) = limited().await;
    for request in [of_size("k", 64 * 1024 + 1), of_size("k", 300_000), of_size("k", 64 * 1024 + 1).chunked()] {
        let answer = samekey.send(&request).await;
        answer.refuses(413, "payload_too_large", "fix_request", "refused");
    }
    assert_eq!(upstream.ledger().count(), 0);
    samekey.send(&of_size("k", 64 * 1024)).await.ran(201, "completed", 1);
    samekey.send(&of_size("c", 64 * 1024).chunked()).await.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().last().body.len(), 64 * 1024);
}

#[tokio::test]
async fn a_length_over_the_limit_is_refused_before_the_body_comes() {
    let (upstream, samekey) = limited().await;
    let mut client = samekey.connect().await;
    client.send(&of_size("k", 10_000_000).header("Expect", "100-continue").head_bytes()).await;
    let head = within(Duration::from_secs(5), "a refusal without a body", client.any_head()).await;
    assert!(head.first_line.contains(" 413 "), "no `100 Continue` for what is refused: {}", head.first_line);
    let mut client = samekey.connect().await;
    client.send(b"POST /f HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\nIdempotency-Key: k\r\n").await;
    client.send(b"Content-Length: 99999999999999999999\r\n\r\n").await;
    let answer = client.answer().await;
    assert!(answer.status == 400 || answer.status == 413, "{answer:?}");
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let (upstream, samekey) = limited().await;
    let request = of_size("k", 1000).header("Expect", "100-continue");
    let mut client = samekey.connect().await;
    client.send(&request.head_bytes()).await;
    let head = client.any_head().await;
    assert!(head.first_line.contains(" 100 "), "{}", head.first_line);
    client.send(&request.body_bytes()).await;
    client.answer().await.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().last().body.len(), 1000);
}

#[tokio::test]
async fn an_answer_over_the_limit_is_delivered_once_and_remembered_as_done() {
    let (upstream, samekey) = limited().await;
    let big: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let chunks: Vec<&[u8]> = big.chunks(10_000).collect();
    upstream
        .next(Reply::with(201, "application/octet-stream", &big).header("Location", "/files/7"))
        .next(Reply::chunked(201, "application/octet-stream", &chunks).header("Location", "/files/7"));
    for key in ["sized", "chunked"] {
        let first = samekey.send(&Request::order(key)).await;
        first.ran(201, "completed", 1);
        assert_eq!(first.body, big, "{key}: delivered whole");
        for _ in 0..2 {
            let again = samekey.send(&Request::order(key)).await;
            let problem = again.refuses(409, "response_not_stored", "done", "completed");
            assert_eq!(problem.json["status_code"], 201);
            assert_eq!(again.header("location").as_deref(), Some("/files/7"));
            assert_eq!(again.receipt().attempt, Some(1));
        }
        assert_eq!(upstream.effects(key), 1);
    }
}

#[tokio::test]
async fn an_answer_of_just_the_limit_is_stored() {
    let (upstream, samekey) = limited().await;
    upstream.next(Reply::with(200, "text/plain", vec![b'x'; 64 * 1024]));
    let first = samekey.send(&Request::order("k")).await;
    first.ran(200, "completed", 1);
    samekey.send(&Request::order("k")).await.replays(&first);
}

#[tokio::test]
async fn a_failure_over_the_limit_is_remembered_as_a_failure() {
    let (upstream, samekey) = limited().await;
    let big = vec![b'x'; 300_000];
    upstream.next(Reply::with(422, "text/plain", &big)).next(Reply::with(500, "text/plain", &big));
    for (key, status) in [("refused", 422), ("broken", 500)] {
        let first = samekey.send(&Request::order(key)).await;
        first.ran(status, "failed", 1);
        let again = samekey.send(&Request::order(key)).await;
        let problem = again.refuses(409, "response_not_stored", "done", "failed");
        assert_eq!(problem.json["status_code"], status);
        assert_eq!(again.receipt().effect, first.receipt().effect);
        assert_eq!(upstream.effects(key), 1);
    }
}

#[tokio::test]
async fn a_large_answer_that_is_cut_after_it_was_committed_stays_done() {
    let (upstream, samekey) = limited().await;
    let big = vec![b'x'; 300_000];
    upstream.next(Reply::with(201, "text/plain", &big).truncated());
    let first = samekey.send(&Request::order("k")).await;
    assert_eq!(first.status, 201);
    assert!(!first.whole, "the client must see that it was cut");
    let again = samekey.send(&Request::order("k")).await;
    again.refuses(409, "response_not_stored", "done", "completed");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_large_answer_that_means_release_still_releases() {
    let (upstream, samekey) = limited().await;
    let big = vec![b'x'; 300_000];
    upstream.next(Reply::with(401, "text/html", &big));
    let first = samekey.send(&Request::order("k")).await;
    assert_eq!((first.status, first.body.len()), (401, big.len()));
    assert_eq!(first.receipt().state, "released");
    samekey.send(&Request::order("k")).await.ran(201, "completed", 2);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_large_answer_changes_nothing() {
    let (upstream, samekey) = limited().await;
    let big = vec![b'x'; 8_000_000];
    upstream.next(Reply::with(201, "text/plain", &big));
    let mut client = samekey.connect().await;
    client.request(&Request::order("k")).await;
    client.opened().await;
    client.reset();
    let again = samekey.send(&Request::order("k")).await;
    again.refuses(409, "response_not_stored", "done", "completed");
    assert_eq!(upstream.effects("k"), 1);
}
