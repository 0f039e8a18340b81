//! The routes in front of a service: what lies under the prefix never reaches it.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{Request, Uri};
use samekey_core::uri::normalise_path;
use tower::{Service, ServiceExt};

use super::Prefix;

/// A service behind the routes.
#[derive(Clone, Debug)]
pub(crate) struct Front<S> {
    pub(crate) prefix: Prefix,
    pub(crate) routes: Router,
    pub(crate) inner: S,
}

impl<S, B> Service<Request<B>> for Front<S>
where
    S: Service<Request<B>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // Equivalent spellings are the same path: a service behind would take them for it, too.
        let path = normalise_path(request.uri().path());
        if !self.prefix.covers(&path) {
            return Box::pin(self.inner.call(request));
        }
        if let Some(uri) = with_path(request.uri(), &path) {
            *request.uri_mut() = uri;
        }
        Box::pin(self.routes.clone().oneshot(request.map(Body::new)))
    }
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    target.parse::<PathAndQuery>().ok().map(Uri::from)
}
