//! How you test your own service: a lost answer and three retries are one order.
//!
//! ```console
//! $ cargo test -p samekey --features testing --example own_test
//! ```

fn main() {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use axum::http::{Request, StatusCode};
    use axum::routing::post;
    use bytes::Bytes;
    use samekey::testing::Harness;
    use samekey::{Actor, IdempotencyLayer, Policy, Store};

    #[tokio::test]
    async fn a_lost_answer_and_three_retries_are_one_order() {
        let orders = Arc::new(AtomicU32::new(0));
        let seen = orders.clone();
        let layer = IdempotencyLayer::new(Store::memory()).actor(|_| Some(Actor::new("ann")));
        let place = move || async move {
            seen.fetch_add(1, Ordering::SeqCst);
            StatusCode::CREATED
        };
        let app: Router = Router::new().route("/orders", post(place).layer(layer.policy(Policy::new("orders.create"))));
        let request = || Request::post("/orders").header("idempotency-key", "k-1").body(Bytes::new()).unwrap();
        let report = Harness::new(app).retry_storm(request, 4).await;
        assert_eq!(orders.load(Ordering::SeqCst), 1);
        assert_eq!(report.answers.len(), 3);
        assert!(report.answers.iter().all(|answer| answer.status == StatusCode::CREATED));
    }
}
