//! A request on its way in: what HTTP/1.1 and HTTP/2 write differently is made one, and a body that nobody wanted is
//! dealt with so that the client hears why.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, COOKIE, EXPECT, HOST, HeaderMap};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// How long a body that was refused is still read and thrown away. Closing at once would reset the connection, and a
/// client that still sends would see the reset instead of the answer.
const LINGER: Duration = Duration::from_secs(5);

/// A request's body, which knows whether it was asked for.
#[derive(Debug)]
pub(crate) struct Arriving {
    body: Option<Incoming>,
    asked: Arc<AtomicBool>,
    /// HTTP/1.1: an unread rest stands between this request and the next one.
    in_line: bool,
    /// The client sends nothing before it is asked.
    waits: bool,
}

/// Whether a client still waits for `100 Continue` when its request is answered.
#[derive(Debug)]
pub(super) struct Expects(Option<Arc<AtomicBool>>);

impl Expects {
    /// The body will not come on this connection any more: who announced it must not wait or send it.
    pub(super) fn close(&self, response: &mut Response) {
        if self.0.as_ref().is_some_and(|asked| !asked.load(Ordering::Relaxed)) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// The request as the rest of the program sees it, or why it is none.
pub(super) fn arrive(request: Request<Incoming>) -> Result<(Request<Arriving>, Expects), &'static str> {
    let (mut parts, body) = request.into_parts();
    let h2 = parts.version == Version::HTTP_2;
    // A target without a path (`POST orders`, the authority form) is for CONNECT only (RFC 9112, section 3.2).
    if parts.method != Method::CONNECT && parts.uri.scheme().is_none() && parts.uri.authority().is_some() {
        return Err("The request's target has no path.");
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err("The request has two Host lines."),
        (None, None) if parts.version == Version::HTTP_11 => return Err("The request has no Host."),
        // RFC 9113, section 8.3.1: a Host that differs from :authority makes a request malformed.
        (Some(host), None) if h2 => match parts.uri.authority() {
            Some(authority) if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) => {
                return Err("Host and :authority differ.");
            }
            _ => {}
        },
        (None, None) if h2 => {
            let host = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
            if let Some(host) = host {
                parts.headers.insert(HOST, host);
            }
        }
        _ => {}
    }
    if h2 {
        join_cookies(&mut parts.headers);
    }
    let expects = !h2 && parts.headers.get(EXPECT).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let asked = Arc::new(AtomicBool::new(false));
    let waits = expects && !body.is_end_stream();
    let told = Expects(waits.then(|| Arc::clone(&asked)));
    Ok((Request::from_parts(parts, Arriving { body: Some(body), asked, in_line: !h2, waits }), told))
}

/// HTTP/2 splits cookies for its compression; elsewhere they are one line (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() > 1
        && let Ok(one) = HeaderValue::from_bytes(&lines.join(&b"; "[..]))
    {
        headers.insert(COOKIE, one);
    }
}

/// The answer to a request that is none.
pub(super) fn bad(why: &str) -> Response {
    let mut response = Response::new(format!("{why}\n").into());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // Whoever sends such a request may mean something else by what follows it, too.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.asked.store(true, Ordering::Relaxed);
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let comes = self.in_line && (!self.waits || self.asked.load(Ordering::Relaxed));
        let rest = self.body.take().filter(|body| comes && !body.is_end_stream());
        if let (Some(mut rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let thrown_away = async { while let Some(Ok(_)) = rest.frame().await {} };
                let _ = tokio::time::timeout(LINGER, thrown_away).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_become_one_line() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1", "b=2; c=3", "d=4"] {
            headers.append(COOKIE, HeaderValue::from_static(cookie));
        }
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3; d=4"]);
    }
}
