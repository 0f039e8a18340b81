//! The program under test: axum, the layer, and a handler that charges and ships through the journal.
//!
//! It is this test binary itself, started anew, so that nothing but a test knows its points. A delivery may name the
//! point at which the process is killed or stopped; the point is marked in the program's own code, never in samekey's.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use rustix::process::{Signal, getpid, kill_process};
use samekey::{
    Actor, Answer, EffectError, IdempotencyLayer, Key, Policy, Probe, Probed, ProviderKey, Recovery, ResultId, Running,
    Store,
};
use serde_json::json;
use support::Connection;

/// How short everything is.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
pub(crate) const PROBE_AFTER: Duration = Duration::from_secs(2);

/// Names a point, and what happens to the process there.
pub(crate) const KILL_AT: &str = "x-kill-at";
pub(crate) const STOP_AT: &str = "x-stop-at";

/// Where its store is, where its provider, and how it recovers: set for the child process only.
pub(crate) const STORE: &str = "CHECKOUT_STORE";
pub(crate) const PROVIDER: &str = "CHECKOUT_PROVIDER";
pub(crate) const RECOVERY: &str = "CHECKOUT_RECOVERY";

pub(crate) fn policy(recovery: Recovery) -> Policy {
    let policy =
        Policy::new("checkout").lease(LEASE).timeout(Duration::from_secs(15)).probe_after_uncertain(PROBE_AFTER);
    policy.wait(Duration::from_millis(100), Duration::from_secs(10)).journaled(true).recovery(recovery)
}

/// A process may end or stop here.
fn point(name: &str, headers: &HeaderMap) {
    let named = |header: &str| headers.get(header).is_some_and(|point| point == name);
    let signal = match (named(KILL_AT), named(STOP_AT)) {
        (true, _) => Signal::KILL,
        (_, true) => Signal::STOP,
        _ => return,
    };
    kill_process(getpid(), signal).expect("a signal to itself");
    // Whatever runs on another thread meanwhile: this one goes no further before the signal has arrived.
    std::thread::sleep(Duration::from_millis(50));
}

/// Before the layer and after it: nothing is claimed yet; its answer is stored.
async fn outside(request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    point("arrived", &headers);
    let answer = next.run(request).await;
    point("answer stored", &headers);
    answer
}

/// Around the handler, inside the layer: its answer is not stored yet.
async fn inside(request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let answer = next.run(request).await;
    point("answer made", &headers);
    answer
}

async fn checkout(
    State(provider): State<SocketAddr>,
    running: Running,
    headers: HeaderMap,
    _order: Bytes,
) -> Result<Response, EffectError> {
    point("claimed", &headers);
    let order = running.key().expose().to_owned();
    let call = async |kind: &'static str| {
        let (headers, order) = (&headers, &order);
        let call = |key: ProviderKey| async move {
            point(&format!("{kind} noted"), headers);
            let made = ask(provider, "POST", kind, key.as_str(), order).await;
            point(&format!("{kind} called"), headers);
            made?.ok_or_else(|| EffectError::not_done("it said so"))
        };
        let made: Result<String, EffectError> = running.effect(kind, call).await;
        point(&format!("{kind} ended"), headers);
        made
    };
    let (charge, parcel) = (call("charge").await?, call("ship").await?);
    Ok((
        StatusCode::CREATED,
        ResultId::new(parcel.clone()),
        [(header::CONTENT_TYPE, "application/json")],
        both(&charge, &parcel),
    )
        .into_response())
}

fn both(charge: &str, parcel: &str) -> String {
    json!({ "charge": charge, "parcel": parcel }).to_string()
}

/// What the provider made under this key, or nothing.
async fn ask(
    provider: SocketAddr,
    method: &str,
    kind: &str,
    key: &str,
    order: &str,
) -> Result<Option<String>, EffectError> {
    let mut connection = Connection::try_open(provider).await.map_err(EffectError::not_done)?;
    let request = support::Request::new(method, &format!("/{kind}")).key(key);
    connection.request(&if method == "POST" { request.body("text/plain", order) } else { request }).await;
    let answer = connection.try_answer().await.map_err(EffectError::unknown)?;
    match answer.status {
        200 if answer.whole => Ok(Some(serde_json::from_slice(&answer.body).map_err(EffectError::unknown)?)),
        404 | 503 => Ok(None),
        status => Err(EffectError::unknown(format!("it answered {status}"))),
    }
}

/// Asks the provider for both.
fn probe(provider: SocketAddr) -> Probe {
    Probe::new(move |about| async move {
        let mut made = Vec::new();
        for kind in ["charge", "ship"] {
            // What does not stand in the journal was not called.
            let noted = about.effects.iter().find(|effect| effect.name == kind);
            made.push(match noted {
                Some(effect) => ask(provider, "GET", kind, &effect.provider_key, "").await?,
                None => None,
            });
        }
        Ok::<_, EffectError>(match (&made[0], &made[1]) {
            (Some(charge), Some(parcel)) => Probed::Done(answered(charge, parcel)),
            (None, None) => Probed::Absent,
            _ => Probed::Unclear("it charged and did not ship".into()),
        })
    })
}

/// The answer, for whoever finds out later that both were made.
pub(crate) fn answered(charge: &str, parcel: &str) -> Answer {
    Answer::json(StatusCode::CREATED, &json!({ "charge": charge, "parcel": parcel })).result_id(parcel)
}

pub(crate) fn key(text: &str) -> Key {
    text.parse().expect("a key")
}

/// The program, where it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is started by the other tests"]
#[expect(clippy::print_stderr, reason = "whoever started it waits for this line")]
async fn runs() {
    let of_the_child = |name: &str| std::env::var(name).ok();
    let Some(store) = of_the_child(STORE) else { return };
    let provider: SocketAddr = of_the_child(PROVIDER).and_then(|text| text.parse().ok()).expect("a provider");
    let recovery = match of_the_child(RECOVERY).as_deref() {
        Some("probe") => Recovery::Probe,
        Some("rerun") => Recovery::Rerun,
        _ => Recovery::Manual,
    };
    let store = Store::sqlite(store).await.expect("a store");
    store.probe("checkout", probe(provider).timeout(Duration::from_secs(1)));
    let layer = IdempotencyLayer::new(store).actor(|_| Some(Actor::new("ann")));
    let handler: MethodRouter<SocketAddr> = post(checkout).layer(from_fn(inside));
    let handler: MethodRouter<SocketAddr> = handler.layer(layer.policy(policy(recovery))).layer(from_fn(outside));
    let app = Router::new().route("/checkout", handler).with_state(provider);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    eprintln!("listening {}", listener.local_addr().expect("its address"));
    axum::serve(listener, app).await.expect("a server");
}
