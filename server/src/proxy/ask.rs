//! Asking the application who a caller is: one `GET`, no redirects, small answers, in time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::{Connector, TlsError};
use crate::layer::actor::whoami::{Answered, Ask};

/// For all of it. A request that waits for this has a caller who waits.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Kept connections close before those of common servers do (Node and uvicorn 5 s).
const IDLE: Duration = Duration::from_secs(4);
/// What says who somebody is; a page is not.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A way to ask at this address, over TLS where it says `https`.
pub(crate) fn asker(url: Uri, ca: Option<&Path>) -> Result<Arc<Ask>, TlsError> {
    let secure = url.scheme_str() == Some("https");
    let connector = Connector::new(secure, ca.filter(|_| secure), TIMEOUT)?;
    let client: Client<Connector, Body> =
        Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new()).build(connector);
    Ok(Arc::new(move |headers| {
        let (client, url) = (client.clone(), url.clone());
        Box::pin(async move {
            let answered = tokio::time::timeout(TIMEOUT, async {
                // A connection that the application closes while it idles loses the first question; the second one
                // goes out on a new connection, and asking twice changes nothing.
                match ask(&client, &url, headers.clone()).await {
                    Err(_) => ask(&client, &url, headers).await,
                    answered => answered,
                }
            });
            answered.await.unwrap_or_else(|_| Err(format!("it did not answer within {} s", TIMEOUT.as_secs())))
        })
    }))
}

async fn ask(client: &Client<Connector, Body>, url: &Uri, headers: HeaderMap) -> Result<Answered, String> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    // Many frameworks answer 401 instead of the sign-in page to who wants JSON.
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    let answer = client.request(request).await.map_err(|_| "it could not be reached, or what it said is not HTTP")?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|_| "its answer broke off, or is larger than 64 KiB")?.to_bytes();
    Ok(Answered { status: head.status, body })
}
