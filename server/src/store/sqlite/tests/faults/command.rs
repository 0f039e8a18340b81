//! Faults within a command: claim, two external calls in the journal, answer. Its caller comes again for as long as it
//! is told to.

use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::body::Body;
use axum::extract::State as Of;
use axum::routing::post;
use axum::{Router, extract};
use http::StatusCode;
use http_body_util::BodyExt;
use samekey_core::problem::Code;
use tower::ServiceExt;

use super::*;
use crate::claim::EffectError;
use crate::layer::{IdempotencyLayer, Running};
use crate::names;

/// What was really called, by effect and command.
type Till = Arc<Mutex<BTreeMap<(&'static str, String), u32>>>;

async fn checkout(Of(till): Of<Till>, running: Running) -> Result<(StatusCode, String), EffectError> {
    let order = running.key().expose().to_owned();
    let call = async |what: &'static str| -> Result<String, EffectError> {
        let (till, order) = (Arc::clone(&till), order.clone());
        running
            .effect(what, |_| async move {
                *till.lock().unwrap().entry((what, order.clone())).or_default() += 1;
                Ok(format!("{what} of {order}"))
            })
            .await
    };
    let (charge, parcel) = (call("charge").await?, call("ship").await?);
    Ok((StatusCode::CREATED, told(&charge, &parcel)))
}

/// An answer of some pages.
fn told(charge: &str, parcel: &str) -> String {
    format!("{charge}, {parcel}{}", ".".repeat(40_000))
}

/// The service over a store that breaks.
struct Counter {
    bench: Bench,
    till: Till,
    app: Router,
}

/// What a caller heard.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Heard {
    status: StatusCode,
    state: String,
    body: String,
}

impl Counter {
    async fn open() -> Self {
        let bench = Bench::swift().await;
        let till = Till::default();
        let layer = IdempotencyLayer::new(bench.store.clone()).actor(|_| Some(Actor::new("ann")));
        let policy = Policy::new("checkout").journaled(true).wait(Duration::ZERO, Duration::ZERO);
        let app = Router::new().route("/checkout", post(checkout).layer(layer.policy(policy)));
        Self { app: app.with_state(Arc::clone(&till)), bench, till }
    }

    fn send(&self, key: &str) -> tokio::task::JoinHandle<Heard> {
        let request = extract::Request::post("/checkout").header("idempotency-key", key).body(Body::empty()).unwrap();
        let app = self.app.clone();
        tokio::spawn(async move {
            let answer = app.oneshot(request).await.unwrap();
            let state = answer.headers().get(names::STATE).unwrap().to_str().unwrap().to_owned();
            let status = answer.status();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            Heard { status, state, body: String::from_utf8_lossy(&body).into_owned() }
        })
    }

    fn calls(&self, key: &str) -> [u32; 2] {
        let till = self.till.lock().unwrap();
        ["charge", "ship"].map(|what| till.get(&(what, key.to_owned())).copied().unwrap_or_default())
    }

    /// One command under this fault, which lasts so long; whether the fault came to anything.
    async fn holds(&self, key: &str, fault: Fault, lasts: Duration) -> bool {
        self.bench.breaks(fault).await;
        let mut sent = self.send(key);
        let mut happened = false;
        let mut heard = tokio::select! {
            heard = &mut sent => heard.unwrap(),
            () = tokio::time::sleep(lasts) => {
                happened |= self.bench.mended().await || matches!(fault, Fault::Full(_));
                sent.await.unwrap()
            }
        };
        let mut tries = 0;
        while heard.status != StatusCode::CREATED {
            happened = true;
            let says = |code: Code| heard.body.contains(&format!("\"{}\"", code.as_str()));
            let not_run = says(Code::StoreUnavailable) || says(Code::Overloaded);
            assert!(!not_run || self.calls(key) == [0, 0], "told that it did not run: {fault:?}, {heard:?}");
            assert!(not_run || says(Code::OperationInProgress), "{fault:?}: {heard:?}");
            happened |= self.bench.mended().await;
            // A claim that its holder never heard of lapses, and nothing is in its journal.
            self.bench.hands.advance(s(10));
            heard = self.send(key).await.unwrap();
            tries += 1;
            assert!(tries < 20, "{fault:?}: no end, {heard:?}");
        }
        happened |= self.bench.mended().await;
        assert_eq!(self.calls(key), [1, 1], "{fault:?}: {heard:?}");
        assert_eq!(heard.body, told(&format!("charge of {key}"), &format!("ship of {key}")));
        assert_eq!(self.send(key).await.unwrap(), heard, "{fault:?}: the retry gets what was told");
        happened
    }
}

/// Longer than any command takes that is struck only once.
const ONCE: Duration = Duration::from_secs(20);
/// Several of the tries to store an end fall into it.
const LASTING: Duration = Duration::from_millis(250);

/// For n = 0, 1, … until nothing goes wrong any more; how far that was. Several stores share the work.
async fn until_untouched(fault: fn(u32) -> Fault, stride: u32, lasts: Duration) -> u32 {
    const SHARES: u32 = 6;
    let mut shares = tokio::task::JoinSet::new();
    for share in 0..SHARES {
        shares.spawn(async move {
            let counter = Counter::open().await;
            assert!(!counter.holds("well", fault(u32::MAX - 1), lasts).await);
            let mut n = share * stride;
            while counter.holds(&format!("k-{n}"), fault(n), lasts).await {
                n += SHARES * stride;
            }
            n
        });
    }
    shares.join_all().await.into_iter().max().unwrap()
}

#[tokio::test]
async fn a_step_that_fails_once_changes_no_answer() {
    let steps = until_untouched(|n| Fault::Step(n + 1), 5, ONCE).await;
    assert!(steps > 500, "{steps} steps");
}

#[tokio::test]
async fn steps_that_fail_for_a_while_delay_or_refuse() {
    let steps = until_untouched(|n| Fault::StepsFrom(n + 1), 23, LASTING).await;
    assert!(steps > 500, "{steps} steps");
}

#[tokio::test]
async fn a_commit_that_is_refused_changes_no_answer() {
    let commits = until_untouched(Fault::Commit, 1, ONCE).await;
    assert!(commits >= 6, "a claim, two effects and an answer: {commits}");
}

#[tokio::test]
async fn a_commit_that_is_not_acknowledged_changes_no_answer() {
    let commits = until_untouched(Fault::Acknowledgement, 1, ONCE).await;
    assert!(commits >= 6, "a claim, two effects and an answer: {commits}");
}

#[tokio::test]
async fn commits_that_are_not_acknowledged_for_a_while_delay_or_refuse() {
    let commits = until_untouched(Fault::AcknowledgementsFrom, 1, LASTING).await;
    assert!(commits >= 6, "a claim, two effects and an answer: {commits}");
}

#[tokio::test]
async fn a_disk_that_is_full_for_a_while_delays_or_refuses() {
    // What takes so long counts as struck, so this is longer than a command takes on a busy machine.
    let pages = until_untouched(Fault::Full, 1, s(2)).await;
    assert!(pages > 5, "{pages} pages");
}
