//! A client closes a key, so that it never runs.

use support::{Answer, Gate, Reply, Request, Serve, Upstream, keys};

fn close(key: &str) -> Request {
    Request::new("DELETE", "/.well-known/samekey/status?operation=POST%20%2Forders").key(key)
}

#[track_caller]
fn closed(answer: &Answer) {
    assert_eq!((answer.status, &answer.json()["state"]), (200, &"closed".into()), "{}", answer.text());
    assert_eq!(answer.receipt().state, "refused");
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    assert_eq!(answer.json()["next"], "new_intent");
}

#[tokio::test]
async fn a_closed_key_never_runs_and_says_so() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let key = keys::v7();
    for _ in 0..3 {
        closed(&samekey.send(&close(&key)).await);
    }
    for body in [r#"{"sku":"tea","qty":1}"#, "{}"] {
        let delivery = Request::post("/orders").key(&key).json(body);
        samekey.send(&delivery).await.refuses(409, "key_closed", "new_intent", "refused");
    }
    closed(&samekey.send(&close(&key)).await);
    let status = Request::new("GET", "/.well-known/samekey/status?operation=POST%20%2Forders").key(&key);
    closed(&samekey.send(&status).await);
    let samekey = samekey.kill().await.start().await;
    closed(&samekey.send(&close(&key)).await);
    samekey.send(&Request::order(&key)).await.refuses(409, "key_closed", "new_intent", "refused");
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn what_ran_or_runs_cannot_be_closed() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    let samekey = Serve::before(&upstream).set("--max-response", "1KiB").start().await;
    let first = samekey.send(&Request::order("done")).await;
    samekey.send(&close("done")).await.replays(&first);
    upstream.next(Reply::with(201, "text/plain", vec![b'x'; 2000]).header("Location", "/orders/large"));
    samekey.send(&Request::order("large")).await;
    let large = samekey.send(&close("large")).await;
    let problem = large.refuses(409, "response_not_stored", "done", "completed");
    assert_eq!(
        (&problem.json["status_code"], large.header("location").as_deref()),
        (&201.into(), Some("/orders/large"))
    );
    upstream.next(Reply::reset());
    samekey.send(&Request::order("lost")).await;
    samekey.send(&close("lost")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let running = samekey.spawn(&Request::order("running"));
    upstream.ledger().arrived(4).await;
    let refused = samekey.send(&close("running")).await;
    refused.refuses(409, "operation_in_progress", "wait", "in_progress");
    assert!(refused.header("link").is_some_and(|link| link.contains("rel=\"status\"")));
    gate.open();
    running.await.expect("an answer").ran(201, "completed", 1);
    let old = keys::v7_aged(std::time::Duration::from_secs(31 * 86_400));
    samekey.send(&close(&old)).await.refuses(410, "key_expired", "ask", "expired");
    assert_eq!(upstream.ledger().count(), 4);
}

#[tokio::test]
async fn a_released_key_can_be_closed() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::json(403, "{}"));
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::order("k")).await.ran(403, "released", 1);
    closed(&samekey.send(&close("k")).await);
    samekey.send(&Request::order("k")).await.refuses(409, "key_closed", "new_intent", "refused");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn closing_asks_who_is_asking() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&close("k").anonymous()).await.refuses(401, "actor_required", "sign_in", "none");
    samekey.send(&close("a, b")).await.refuses(400, "idempotency_key_invalid", "fix_request", "refused");
    // Somebody else closes a key of his own.
    closed(&samekey.send(&close("k").actor("Bearer bob")).await);
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    // The same credentials may have been renewed: who knows whose the key is.
    let key = keys::v4();
    samekey.send(&Request::order(&key)).await.ran(201, "completed", 1);
    samekey.send(&close(&key).actor("Bearer renewed")).await.refuses(409, "actor_changed", "ask", "none");
}

#[tokio::test]
async fn closed_keys_count_against_nothing() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--quota", "2").start().await;
    for n in 0..10 {
        closed(&samekey.send(&close(&format!("closed-{n}"))).await);
    }
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn of_a_close_and_a_delivery_one_wins() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let (mut ran, mut shut) = (0, 0);
    for round in 0..200 {
        let key = format!("race-{round}");
        let (first, second) = if round % 2 == 0 {
            (samekey.spawn(&close(&key)), samekey.spawn(&Request::order(&key)))
        } else {
            let delivery = samekey.spawn(&Request::order(&key));
            (samekey.spawn(&close(&key)), delivery)
        };
        let (closing, delivery) = (first.await.expect("an answer"), second.await.expect("an answer"));
        match upstream.effects(&key) {
            0 => {
                closed(&closing);
                delivery.refuses(409, "key_closed", "new_intent", "refused");
                shut += 1;
            }
            1 => {
                delivery.ran(201, "completed", 1);
                match closing.status {
                    201 => closing.replays(&delivery),
                    _ => drop(closing.refuses(409, "operation_in_progress", "wait", "in_progress")),
                }
                ran += 1;
            }
            more => panic!("{more} effects of {key}"),
        }
    }
    assert_eq!(ran + shut, 200);
}
