//! Forwarding to the upstream over HTTP/1.1, and telling "nothing was sent" from "who knows".
//!
//! That difference decides whether a record is released or uncertain, so it rests on proofs, not
//! on texts of errors:
//!
//! * An error that arose **before a connection was chosen** (name not found, refused, connect
//!   timeout, a failed TLS handshake, a new connection that closed before it was ready) carries no
//!   connection. Nothing was sent.
//! * hyper calls an error **canceled** only where it hands the request back unserialised: the
//!   connection closed while the request still waited for its turn. Nothing was sent.
//! * **Everything else** (reset, end of file, an answer that does not parse) arose after
//!   serialising had begun, and the upstream may have seen the whole request.
//!
//! A connection that was opened after the claim was over is not used: nothing was sent.
//!
//! `retry_canceled_requests` of hyper-util stays on: it resends exactly the second kind, and only
//! if the connection was a used one. A request of which one byte may have left is never resent.
//!
//! An upstream that closes idle connections races with the next request on them, and the loser is
//! a request of the third kind. Requests under a claim therefore go out on connections that idled
//! for less than [`ForwardConfig::upstream_idle`], or on new ones; idle time is a property of a
//! whole pool in hyper-util, hence two clients.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, TE, TRAILER};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;

use super::connect::{Connector, TlsError, within};
use super::trailers::{self, Trailed};
use super::tunnel::{Asked, Tunnels};
use super::{forwarded, hop};
use crate::layer::{Failure, NotAfter, Trusted};
use crate::names;
use crate::problem::plain;

#[cfg(test)]
mod tests;

/// Where requests go, and how long connections live.
#[derive(Clone, Debug)]
pub(crate) struct ForwardConfig {
    /// `http://host:port` or `https://host`, perhaps with a path under which everything is forwarded.
    pub(crate) upstream: Uri,
    /// Certificates, in a file, that are trusted in place of the system's.
    pub(crate) upstream_ca: Option<PathBuf>,
    /// Whose word on where a request came from is passed on.
    pub(crate) trusted: Trusted,
    /// How long opening a connection, with its TLS handshake, may take before the request counts as not sent.
    pub(crate) connect_timeout: Duration,
    /// A request under a claim goes out on a connection that idled for less than this. Shorter
    /// than the idle limits of common servers (gunicorn 2 s, Node and uvicorn 5 s).
    pub(crate) upstream_idle: Duration,
}

/// Why an upstream cannot be forwarded to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// No scheme or one other than `http` and `https`.
    #[error("the upstream must start with http:// or https://, as in http://127.0.0.1:3000")]
    Scheme,
    /// No host.
    #[error("the upstream names no host; write it like http://127.0.0.1:3000")]
    NoHost,
    /// `user:password@` would have to be sent to the upstream, and would end up in logs.
    #[error("the upstream must not contain a user name or password")]
    UserInfo,
    /// A query would have to be merged with that of each request.
    #[error("the upstream may have a path, but no query")]
    Query,
    /// A private authority beside an address without TLS: somebody means to be safer than they are.
    #[error("--upstream-ca is of no use with an upstream that starts with http://; should it be https://?")]
    CaWithoutTls,
    /// No certificates to trust.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Scheme, host and port, and the path without its last slash.
fn place(upstream: Uri) -> Result<(Scheme, Authority, String), UpstreamError> {
    let parts = upstream.into_parts();
    let known = |scheme: &Scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme);
    let scheme = parts.scheme.filter(known).ok_or(UpstreamError::Scheme)?;
    let authority = parts.authority.ok_or(UpstreamError::NoHost)?;
    if authority.host().is_empty() {
        return Err(UpstreamError::NoHost);
    }
    if authority.as_str().contains('@') {
        return Err(UpstreamError::UserInfo);
    }
    let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
    if path.query().is_some() {
        return Err(UpstreamError::Query);
    }
    Ok((scheme, authority, path.path().trim_end_matches('/').to_owned()))
}

/// What is answered here to a request that cannot be forwarded at all.
type Refusal = (StatusCode, &'static str);

/// How long a connection may idle before a request without a claim: a race lost there costs a `502`,
/// not an uncertain outcome. Still below the 5 s of Node and uvicorn.
const UNCOVERED_IDLE: Duration = Duration::from_secs(4);

/// Kept connections per pool. A burst beyond it opens new ones; what idles costs both sides a
/// descriptor.
const MAX_IDLE: usize = 256;

/// The service that forwards each request to the upstream.
///
/// It never fails: what went wrong is a `502` that carries a [`Failure`] as extension.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    scheme: Scheme,
    authority: Authority,
    /// The upstream's path without its last slash.
    base: String,
    trusted: Trusted,
    covered: Client<Connector, Body>,
    uncovered: Client<Connector, Body>,
    tunnels: Tunnels,
}

impl Forward {
    /// Prepares the connections; opens none.
    ///
    /// # Errors
    /// If the upstream is not a plain URL, or its certificate could never be checked.
    pub(crate) fn new(config: ForwardConfig) -> Result<Self, UpstreamError> {
        let ForwardConfig { upstream, upstream_ca, trusted, connect_timeout, upstream_idle } = config;
        let (scheme, authority, base) = place(upstream)?;
        let secure = scheme == Scheme::HTTPS;
        if upstream_ca.is_some() && !secure {
            return Err(UpstreamError::CaWithoutTls);
        }
        let connector = Connector::new(secure, upstream_ca.as_deref(), connect_timeout)?;
        let client = |idle| {
            Client::builder(TokioExecutor::new())
                .pool_idle_timeout(idle)
                .pool_timer(TokioTimer::new())
                .pool_max_idle_per_host(MAX_IDLE)
                .build(connector.clone())
        };
        let (covered, uncovered) = (client(upstream_idle), client(UNCOVERED_IDLE));
        Ok(Self { scheme, authority, base, trusted, covered, uncovered, tunnels: Tunnels::default() })
    }

    /// The tunnels through it, for the shutdown.
    pub(crate) fn tunnels(&self) -> Tunnels {
        self.tunnels.clone()
    }

    /// The request as the upstream should get it; `Err` is the answer to one it cannot get.
    fn outgoing(&self, request: Request<Body>) -> Result<Request<Body>, Refusal> {
        let (mut parts, body) = request.into_parts();
        if parts.method == Method::CONNECT {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "This is not a tunnelling proxy."));
        }
        if hop::has_foreign_coding(&parts.headers) {
            let why = "The only transfer coding understood here is chunked.";
            return Err((StatusCode::NOT_IMPLEMENTED, why));
        }
        let Some(uri) = self.target(&parts.uri) else {
            return Err((StatusCode::URI_TOO_LONG, "The address is too long to forward."));
        };
        // The target of an absolute-form request replaces Host (RFC 9112 section 3.2.2).
        if let Some(authority) = parts.uri.authority()
            && let Ok(host) = HeaderValue::from_str(host_and_port(authority))
        {
            parts.headers.insert(HOST, host);
        }
        let trailers = trailers::are_wanted(&parts.headers);
        // HTTP/2 has trailers beside a length, HTTP/1.1 in their place only.
        let h2 = parts.version == Version::HTTP_2 && !body.is_end_stream();
        let announced = parts.headers.contains_key(TRAILER) && (h2 || body.size_hint().exact().is_none());
        parts.headers.remove(if announced { CONTENT_LENGTH } else { TRAILER });
        hop::strip_request(&mut parts.headers);
        forwarded::tell(&mut parts, &self.trusted);
        if trailers {
            // Said anew for the next hop, where it belongs to the connection again.
            parts.headers.insert(TE, HeaderValue::from_static("trailers"));
            parts.headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }

        let mut outgoing = Request::new(Body::new(Trailed::new(body, announced)));
        *outgoing.method_mut() = parts.method;
        *outgoing.uri_mut() = uri;
        *outgoing.version_mut() = Version::HTTP_11;
        *outgoing.headers_mut() = parts.headers;
        Ok(outgoing)
    }

    /// Path and query as they came, byte for byte, below the upstream's own path.
    fn target(&self, uri: &Uri) -> Option<Uri> {
        let path = match uri.path_and_query() {
            Some(path) if self.base.is_empty() || path == "*" => path.clone(),
            // An empty path is written as a slash.
            Some(path) => format!("{}{path}", self.base).parse().ok()?,
            None => PathAndQuery::from_static("/"),
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).ok()
    }
}

impl tower::Service<Request<Body>> for Forward {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // Only the layer says this: it takes the header off whatever clients send.
        let under_claim = request.headers().contains_key(names::ATTEMPT);
        let client = if under_claim { &self.covered } else { &self.uncovered };
        let tunnel = if under_claim { None } else { Asked::take(&mut request) };
        let tunnels = self.tunnels.clone();
        let trailers = trailers::are_wanted(request.headers());
        let not_after = request.extensions().get().map(|NotAfter(moment)| *moment);
        let sent = self.outgoing(request).map(|mut outgoing| {
            if let Some(tunnel) = &tunnel {
                tunnel.announce(outgoing.headers_mut());
            }
            client.request(outgoing)
        });
        Box::pin(async move {
            let answer = match sent {
                Ok(_) if not_after.is_some_and(|moment| Instant::now() >= moment) => {
                    Err(not_sent("The claim was over before the request was sent."))
                }
                Ok(answer) => within(not_after, answer).await.map_err(|error| classify(&error)),
                Err((status, why)) => return Ok(plain(status, why)),
            };
            Ok(match (answer, tunnel) {
                (Ok(agreed), Some(tunnel)) if agreed.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    tunnel.open(agreed, &tunnels)
                }
                (answer, _) => answer.and_then(|answer| incoming(answer, trailers)).unwrap_or_else(failed),
            })
        })
    }
}

/// The upstream's answer as the caller should get it. Errors of its body stay errors: an answer
/// that broke off must never look whole.
fn incoming(response: Response<hyper::body::Incoming>, trailers: bool) -> Result<Response<Body>, Failure> {
    let (mut parts, body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(unknown("The service switched protocols although nobody asked."));
    }
    if hop::has_foreign_coding(&parts.headers) {
        return Err(unknown("The service answered in an unknown transfer coding."));
    }
    hop::strip_response(&mut parts.headers);
    if !trailers {
        parts.headers.remove(TRAILER);
    }
    let mut response = Response::new(Body::new(Trailed::new(body, trailers)));
    *response.status_mut() = parts.status;
    *response.headers_mut() = parts.headers;
    Ok(response)
}

/// See the page above: only a proof makes it `NotSent`. The words are for the caller, who must not
/// learn addresses from them; the causes go to the log.
fn classify(error: &ClientError) -> Failure {
    let cause = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    let failure = if error.connect_info().is_none() {
        not_sent("No connection to the service could be opened.")
    } else if cause.is_some_and(hyper::Error::is_canceled) {
        not_sent("The connection to the service closed before the request was sent.")
    } else if cause.is_some_and(hyper::Error::is_user) {
        unknown("The request broke off while it was sent to the service.")
    } else if cause.is_some_and(hyper::Error::is_parse) {
        unknown("What the service answered is not HTTP.")
    } else {
        unknown("The connection to the service broke before an answer came.")
    };
    let sent = if matches!(failure, Failure::NotSent { .. }) { "no" } else { "unknown" };
    tracing::warn!(event = "upstream_error", sent, cause = chain(error));
    failure
}

fn not_sent(detail: &str) -> Failure {
    Failure::NotSent { detail: detail.to_owned() }
}

fn unknown(detail: &str) -> Failure {
    Failure::Unknown { detail: detail.to_owned() }
}

/// An error with its causes, for the log.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// What a request without a claim sees; the layer puts its own answer in the place of this one.
fn failed(failure: Failure) -> Response<Body> {
    let detail = match &failure {
        Failure::NotSent { detail } | Failure::Unknown { detail } => detail,
    };
    let mut response = plain(StatusCode::BAD_GATEWAY, detail);
    response.extensions_mut().insert(failure);
    response
}

fn host_and_port(authority: &Authority) -> &str {
    let authority = authority.as_str();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}
