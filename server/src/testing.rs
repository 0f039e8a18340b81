//! For tests of services that stand on samekey: a store that goes away, and clients that never give up.
//!
//! Feature `testing`.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tower::{Service, ServiceExt};

use crate::command::Answer;
use crate::names;
use crate::store::{SqliteOptions, Store};

/// How often a client of a storm comes again. A command that takes longer than that many pauses is none for a test.
const MOST_TRIES: usize = 200;
/// The longest pause between two tries, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl Store {
    /// A store for tests: a SQLite file in a temporary folder, which is deleted when the last clone is dropped. It
    /// does not wait for the disk, so nothing of it survives a crash. Made outside of a runtime, nobody looks after its
    /// records in the background.
    ///
    /// # Panics
    /// If no file can be made.
    pub fn memory() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut options = SqliteOptions::new(folder.path().join("samekey.db")).min_free_bytes(0);
        options.passing = Some(Arc::new(folder));
        options.attended = tokio::runtime::Handle::try_current().is_ok();
        Self::open_now(options).expect("a store in a temporary folder")
    }
}

/// Delivers requests to a service as clients in trouble do.
#[derive(Clone)]
pub struct Harness<S> {
    service: S,
}

/// What came of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The answer that each client heard in the end. The first delivery's is lost and not among them.
    pub answers: Vec<Answer>,
    /// How many requests were sent in all.
    pub deliveries: usize,
}

impl<S> fmt::Debug for Harness<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness").finish_non_exhaustive()
    }
}

impl<S, B> Harness<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: fmt::Debug + Send,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Debug,
{
    /// Over this service, a router for instance.
    pub fn new(service: S) -> Self {
        Self { service }
    }

    /// Delivers the same request `times` times. The first client hangs up as soon as it would have to wait, and its
    /// answer is lost; the others come at once, all together, and each comes again for as long as it is told to.
    ///
    /// # Panics
    /// If `times` is less than 2, the service fails, or an answer does not come.
    pub async fn retry_storm(&self, request: impl Fn() -> Request<Bytes>, times: usize) -> Report {
        assert!(times >= 2, "a storm is a delivery and at least one retry");
        let mut report = Report { answers: Vec::new(), deliveries: 1 };
        {
            let mut lost = pin!(self.service.clone().oneshot(request().map(Body::from)));
            std::future::poll_fn(|context| {
                let _ = lost.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
        }
        let clients: Vec<_> = (1..times).map(|_| tokio::spawn(persist(self.service.clone(), request()))).collect();
        for client in clients {
            let (answer, deliveries) = client.await.expect("a client of the storm ends");
            report.answers.push(answer);
            report.deliveries += deliveries;
        }
        report
    }
}

/// A client that keeps its key until it knows the outcome; also how often it came.
async fn persist<S, B>(service: S, request: Request<Bytes>) -> (Answer, usize)
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: fmt::Debug,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Debug,
{
    for tries in 1..=MOST_TRIES {
        let response = service.clone().oneshot(request.clone().map(Body::from)).await.expect("the service answers");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("the answer is whole").to_bytes();
        let answer = Answer::from(Response::from_parts(parts, body));
        if !comes_again(&answer) {
            return (answer, tries);
        }
        let seconds = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let asked = seconds.map_or(LONGEST_PAUSE, Duration::from_secs);
        tokio::time::sleep(asked.min(LONGEST_PAUSE)).await;
    }
    panic!("the service said {MOST_TRIES} times that the client should come again")
}

/// Whether the same key may come to another answer later.
fn comes_again(answer: &Answer) -> bool {
    let state = answer.headers.get(names::STATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let word = state.split(';').next().unwrap_or_default();
    let signs_in = matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    !signs_in && (matches!(word, "in_progress" | "released") || answer.status == StatusCode::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_passing_store_leaves_nothing_behind() {
        let store = Store::memory();
        store.ready().await.unwrap();
        let folder = store.folder();
        assert!(folder.join("samekey.db").exists());
        store.close().await;
        assert!(folder.exists(), "as long as somebody has it");
        drop(store);
        assert!(!folder.exists());
    }
}
