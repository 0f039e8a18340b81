//! Many deliveries of one key at once.

use std::sync::Arc;
use std::time::Duration;

use super::support::{Answer, Ledger, layer, policy, request, send, store};
use axum::Router;
use axum::routing::post;
use http::{Request, StatusCode};
use tokio::sync::Semaphore;

/// A handler that ends when the test lets it, with a status that the test chooses.
struct Gated {
    app: Router,
    ledger: Ledger,
    gate: Arc<Semaphore>,
    _kept: super::support::Kept,
}

async fn gated(policy: samekey::Policy, status: StatusCode) -> Gated {
    let kept = store().await;
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let (seen, opened) = (ledger.clone(), Arc::clone(&gate));
    let handler = move || async move {
        seen.enter();
        opened.acquire().await.unwrap().forget();
        (status, "done")
    };
    let app = Router::new().route("/orders", post(handler).layer(layer(&kept.store).policy(policy)));
    Gated { app, ledger, gate, _kept: kept }
}

impl Gated {
    fn deliver(&self, prefer: Option<&'static str>) -> tokio::task::JoinHandle<Answer> {
        let app = self.app.clone();
        let mut request = request("/orders", "k1", "{}");
        if let Some(prefer) = prefer {
            request.headers_mut().insert("prefer", http::HeaderValue::from_static(prefer));
        }
        tokio::spawn(async move { send(&app, request).await })
    }

    async fn running(&self) {
        while self.ledger.count() == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_deliveries_have_one_effect() {
    let gated = gated(policy(), StatusCode::CREATED).await;
    let deliveries: Vec<_> = (0..100).map(|_| gated.deliver(Some("wait=10"))).collect();
    gated.running().await;
    // Those that find no seat hear so at once; once they have, the sixteen seats are taken.
    let mut refused = 0;
    let mut waiting = Vec::new();
    for delivery in deliveries {
        if waiting.len() + refused >= 83 && refused >= 83 {
            waiting.push(delivery);
            continue;
        }
        tokio::select! {
            biased;
            answer = tokio::time::timeout(Duration::from_millis(300), async {
                while !delivery.is_finished() { tokio::task::yield_now().await; }
            }) => match answer {
                Ok(()) => {
                    let answer = delivery.await.unwrap();
                    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::CONFLICT, "operation_in_progress"));
                    assert_ne!(answer.header("retry-after"), "");
                    refused += 1;
                }
                Err(_) => waiting.push(delivery),
            },
        }
    }
    assert_eq!(refused, 100 - 1 - 16);
    gated.gate.add_permits(1);
    let mut replayed = 0;
    for delivery in waiting {
        let answer = delivery.await.unwrap();
        assert_eq!((answer.status, answer.body.as_ref()), (StatusCode::CREATED, &b"done"[..]));
        replayed += u32::from(answer.replayed());
    }
    assert_eq!((replayed, gated.ledger.count()), (16, 1));
}

#[tokio::test]
async fn a_retry_waits_no_longer_than_it_may() {
    let gated = gated(policy(), StatusCode::CREATED).await;
    let first = gated.deliver(None);
    gated.running().await;
    for prefer in [None, Some("wait=0")] {
        let answer = gated.deliver(prefer).await.unwrap();
        assert_eq!(answer.code(), "operation_in_progress");
        assert_eq!(answer.header("samekey-state"), "in_progress;attempt=1");
        assert_eq!(answer.header("stripe-should-retry"), "true");
    }
    gated.gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_waiter_never_becomes_a_runner() {
    let gated = gated(policy(), StatusCode::TOO_MANY_REQUESTS).await;
    let first = gated.deliver(None);
    gated.running().await;
    let waiters: Vec<_> = (0..8).map(|_| gated.deliver(Some("wait=10"))).collect();
    tokio::time::sleep(Duration::from_millis(50)).await; // lets them take their seats; too early only tests less
    gated.gate.add_permits(1);
    assert_eq!(first.await.unwrap().header("samekey-state"), "released;attempt=1");
    for waiter in waiters {
        let answer = waiter.await.unwrap();
        if answer.code() == "operation_released" {
            assert_eq!(answer.header("samekey-state"), "released;attempt=1");
            assert_ne!(answer.header("retry-after"), "");
        } else {
            panic!("{answer:?}");
        }
    }
    assert_eq!(gated.ledger.count(), 1);
}

#[tokio::test]
async fn another_payload_is_refused_while_the_first_still_runs() {
    let gated = gated(policy(), StatusCode::CREATED).await;
    let first = gated.deliver(None);
    gated.running().await;
    let other =
        Request::post("/orders").header("idempotency-key", "k1").header("x-user", "ann").body("other".into()).unwrap();
    assert_eq!(send(&gated.app, other).await.code(), "key_payload_mismatch");
    gated.gate.add_permits(1);
    first.await.unwrap();
    assert_eq!(gated.ledger.count(), 1);
}

#[tokio::test]
async fn a_late_answer_settles_its_record() {
    let slow = policy().timeout(Duration::from_millis(50));
    let gated = gated(slow, StatusCode::CREATED).await;
    let first = gated.deliver(None).await.unwrap();
    assert_eq!((first.status, first.code().as_str()), (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"));
    assert_eq!(first.header("samekey-state"), "uncertain;attempt=1");
    assert_eq!(gated.deliver(None).await.unwrap().code(), "outcome_uncertain");
    gated.gate.add_permits(1);
    let mut answer = gated.deliver(None).await.unwrap();
    while answer.code() == "outcome_uncertain" {
        tokio::task::yield_now().await;
        answer = gated.deliver(None).await.unwrap();
    }
    assert_eq!((answer.status, answer.replayed()), (StatusCode::CREATED, true));
    assert_eq!(gated.ledger.count(), 1);
}
