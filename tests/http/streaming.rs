//! Answers that cannot be held until they are complete.

use std::time::{Duration, Instant};
use support::{Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn an_event_stream_flows_and_is_remembered_as_done() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let gate = Gate::new();
    let events = Reply::chunked(200, "text/event-stream; charset=utf-8", &[b"data: 1\n\n"]);
    upstream.next(events.header("Location", "/runs/7").then_gated(&gate, &[b"data: 2\n\n"]));
    let mut client = samekey.connect().await;
    client.request(&Request::order("k")).await;
    let opened = client.opened().await;
    assert_eq!(opened.status, 200);
    assert_eq!(opened.head.headers.one("samekey-state").expect("a receipt").split(';').next(), Some("completed"));
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"data: 1\n\n");
    let again = samekey.send(&Request::order("k")).await;
    let problem = again.refuses(409, "response_not_stored", "done", "completed");
    assert_eq!(problem.json["status_code"], 200);
    assert_eq!(again.header("location").as_deref(), Some("/runs/7"));
    gate.open();
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"data: 2\n\n");
    assert_eq!(client.chunk().await.expect("the last chunk"), None);
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_slow_answer_is_held_for_hold_and_then_streams() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--hold", "400ms").start().await;
    let gate = Gate::new();
    upstream.next(Reply::chunked(201, "text/plain", &[b"one"]).then_gated(&gate, &[b"two"]));
    let mut client = samekey.connect().await;
    let begun = Instant::now();
    client.request(&Request::order("k")).await;
    client.opened().await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(350) && took < Duration::from_secs(4), "held for {took:?}");
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"one");
    samekey.send(&Request::order("k")).await.refuses(409, "response_not_stored", "done", "completed");
    gate.open();
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"two");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_slow_answer_within_hold_is_stored_whole() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::chunked(201, "text/plain", &[b"a", b"b", b"c", b"d"]).slowly(Duration::from_millis(100)));
    let first = samekey.send(&Request::order("k")).await;
    first.ran(201, "completed", 1);
    assert_eq!(first.text(), "abcd");
    samekey.send(&Request::order("k")).await.replays(&first);
}

#[tokio::test]
async fn a_stream_may_run_longer_than_the_timeout() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).quick().start().await;
    let gate = Gate::new();
    upstream.next(Reply::chunked(200, "text/event-stream", &[b"data: 1\n\n"]).then_gated(&gate, &[b"data: 2\n\n"]));
    let mut client = samekey.connect().await;
    client.request(&Request::order("k")).await;
    client.opened().await;
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"data: 1\n\n");
    // Past timeout, lease and probe_after: the record ended when the stream began.
    tokio::time::sleep(Duration::from_millis(3500)).await;
    samekey.send(&Request::order("k")).await.refuses(409, "response_not_stored", "done", "completed");
    gate.open();
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"data: 2\n\n");
    assert_eq!(client.chunk().await.expect("the last chunk"), None);
}

#[tokio::test]
async fn a_stream_cut_by_the_upstream_is_cut_for_the_client_and_stays_done() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::chunked(200, "text/event-stream", &[b"data: 1\n\n"]).truncated());
    let first = samekey.send(&Request::order("k")).await;
    assert!(!first.whole, "no proper end was invented");
    samekey.send(&Request::order("k")).await.refuses(409, "response_not_stored", "done", "completed");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_waiter_of_a_stream_hears_that_it_is_done() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let (head, end) = (Gate::new(), Gate::new());
    upstream.next(Reply::chunked(200, "text/event-stream", &[b"data: 1\n\n"]).gated(&head).then_gated(&end, &[]));
    let mut client = samekey.connect().await;
    client.request(&Request::order("k")).await;
    upstream.ledger().arrived(1).await;
    let waiter = samekey.spawn(&Request::order("k"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    head.open();
    let waiter = waiter.await.expect("the waiter's answer");
    waiter.refuses(409, "response_not_stored", "done", "completed");
    end.open();
}
