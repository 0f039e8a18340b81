//! The client goes away, at any point.

use std::time::Duration;
use support::{Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn a_client_that_leaves_within_its_request_leaves_no_claim() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let request = Request::order("k");
    let bytes = request.bytes();
    for cut in [1, 20, bytes.len() / 2, request.head_bytes().len(), bytes.len() - 1] {
        for reset in [true, false] {
            let mut client = samekey.connect().await;
            client.send(&bytes[..cut]).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            if reset {
                client.reset();
            } else {
                client.half_close().await;
                client.closed().await;
            }
        }
    }
    assert_eq!(upstream.ledger().count(), 0);
    // No claim: other payloads are free to take the key, and it is the first attempt.
    samekey.send(&Request::post("/orders").key("k").json("{}")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn a_client_that_leaves_right_after_its_request_finds_its_answer_later() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for n in 0..20 {
        let key = format!("k-{n}");
        let mut client = samekey.connect().await;
        client.request(&Request::order(&key)).await;
        if n % 2 == 0 {
            client.reset();
        } else {
            drop(client);
        }
        let answer = samekey.send(&Request::order(&key)).await;
        assert_eq!((answer.status, answer.receipt().attempt), (201, Some(1)), "{key}: {}", answer.text());
        samekey.send(&Request::order(&key)).await.replays(&answer);
        assert_eq!(upstream.effects(&key), 1, "{key}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_the_handler_runs_does_not_cancel_it() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, r#"{"id":"kept"}"#).gated(&gate));
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    client.request(&Request::order("k")).await;
    upstream.ledger().arrived(1).await;
    client.reset();
    let waiter = samekey.spawn(&Request::order("k"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(upstream.ledger().hang_ups(), 0, "the upstream notices nothing");
    gate.open();
    let answer = waiter.await.expect("the waiter's answer");
    assert!(answer.replayed() && answer.json()["id"] == "kept", "{answer:?}");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_client_that_leaves_before_reading_the_answer_gets_it_again() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::with(201, "text/plain", vec![b'x'; 900_000]));
    let mut client = samekey.connect().await;
    client.request(&Request::order("k")).await;
    client.opened().await;
    client.reset();
    let answer = samekey.send(&Request::order("k")).await;
    assert_eq!((answer.status, answer.body.len(), answer.replayed()), (201, 900_000, true));
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_client_that_closes_its_sending_half_has_sent_a_whole_request() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    client.request(&Request::order("k")).await;
    client.half_close().await;
    client.closed().await;
    upstream.ledger().arrived(1).await;
    let answer = samekey.send(&Request::order("k")).await;
    assert_eq!((answer.status, answer.receipt().attempt), (201, Some(1)));
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn retries_after_lost_answers_are_one_effect_with_one_result() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.script(|received| {
        let id = format!("o-{}", received.number);
        Reply::json(201, &format!(r#"{{"id":"{id}"}}"#))
            .header("Location", format!("/orders/{id}"))
            .after(Duration::from_millis(5 * (received.number as u64 % 7)))
    });
    for n in 0..25_u64 {
        let key = format!("k-{n}");
        for lost in 0..3 {
            let mut client = samekey.connect().await;
            client.request(&Request::order(&key)).await;
            tokio::time::sleep(Duration::from_millis((n * 3 + lost) % 20)).await;
            client.reset();
        }
        let answer = samekey.send(&Request::order(&key)).await;
        assert_eq!((answer.status, answer.receipt().attempt), (201, Some(1)), "{key}: {}", answer.text());
        assert_eq!(answer.header("location"), Some(format!("/orders/{}", answer.json()["id"].as_str().expect("id"))));
        assert_eq!(upstream.effects(&key), 1, "{key}");
    }
}
