//! Asking the application something of samekey's own: one `GET`, no redirects, small answers, in time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::response::Parts;
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::{Connector, TlsError};
use crate::layer::actor::whoami::{Answered, Ask};

/// For all of the question who somebody is. A request that waits for this has a caller who waits.
const WHOAMI_TIMEOUT: Duration = Duration::from_secs(5);
/// Kept connections close before those of common servers do (Node and uvicorn 5 s).
const IDLE: Duration = Duration::from_secs(4);
/// What says who somebody is; a page is not.
const WHOAMI_BYTES: usize = 64 << 10;

/// Asks at one address.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    client: Client<Connector, Body>,
    url: Uri,
}

impl Asker {
    /// Over TLS where the address says `https`. `connecting` is how long opening a connection may take.
    pub(super) fn new(url: Uri, ca: Option<&Path>, connecting: Duration) -> Result<Self, TlsError> {
        let secure = url.scheme_str() == Some("https");
        let connector = Connector::new(secure, ca.filter(|_| secure), connecting)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { client, url })
    }

    /// The whole answer, or in words for the log why there is none.
    pub(super) async fn get(&self, headers: HeaderMap, at_most_bytes: usize) -> Result<(Parts, Bytes), String> {
        // A connection that the application closes while it idles loses the first question; the second one goes out on
        // a new connection, and asking twice changes nothing.
        match self.try_get(headers.clone(), at_most_bytes).await {
            Err(_) => self.try_get(headers, at_most_bytes).await,
            answered => answered,
        }
    }

    async fn try_get(&self, headers: HeaderMap, at_most_bytes: usize) -> Result<(Parts, Bytes), String> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = headers;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|_| "it could not be reached, or what it said is not HTTP".to_owned())?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, at_most_bytes).collect().await;
        let body = body.map_err(|_| format!("its answer broke off, or is larger than {at_most_bytes} bytes"))?;
        Ok((parts, body.to_bytes()))
    }
}

/// One request of a command to a server's admin listener: once, because the one that settles changes something.
pub(crate) async fn admin(
    request: Request<Body>,
    within: Duration,
    at_most_bytes: usize,
) -> Result<(Parts, Bytes), Unanswered> {
    let asker =
        Asker::new(request.uri().clone(), None, within).map_err(|error| Unanswered::Never(error.to_string()))?;
    let asked = async {
        let answer = asker.client.request(request).await.map_err(|error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            if error.is_connect() { Unanswered::Never(why) } else { Unanswered::Perhaps(why) }
        })?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, at_most_bytes).collect().await;
        let body = body.map_err(|error| Unanswered::Perhaps(format!("its answer broke off ({error})")))?;
        Ok((parts, body.to_bytes()))
    };
    let late = || Unanswered::Perhaps(format!("it did not answer within {} s", within.as_secs()));
    tokio::time::timeout(within, asked).await.unwrap_or_else(|_| Err(late()))
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) enum Unanswered {
    /// The server never got the request.
    Never(String),
    /// What it was to do may be done.
    Perhaps(String),
}

/// A way to ask who somebody is.
pub(crate) fn whoami(url: Uri, ca: Option<&Path>) -> Result<Arc<Ask>, TlsError> {
    let asker = Asker::new(url, ca, WHOAMI_TIMEOUT)?;
    Ok(Arc::new(move |mut headers: HeaderMap| {
        let asker = asker.clone();
        Box::pin(async move {
            // Many frameworks answer 401 instead of the sign-in page to who wants JSON.
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            let answered = tokio::time::timeout(WHOAMI_TIMEOUT, asker.get(headers, WHOAMI_BYTES)).await;
            let (head, body) =
                answered.unwrap_or_else(|_| Err(format!("it did not answer within {} s", WHOAMI_TIMEOUT.as_secs())))?;
            Ok(Answered { status: head.status, body })
        })
    }))
}
