//! Files that the binary carries: their types, and an answer to who has them already.

use std::borrow::Cow;

use axum::body::Body;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use sha2::{Digest as _, Sha256};

/// The file, or that it is what the browser has. It is asked for each time: another binary may have another one.
pub(crate) fn answer(name: &str, content: Cow<'static, [u8]>, known: Option<&HeaderValue>) -> Response<Body> {
    // Weak: what is compressed on its way is the same file.
    let tag = format!("W/\"{}\"", crate::hex(&Sha256::digest(&content)[..8]));
    let same = known.and_then(|known| known.to_str().ok()).is_some_and(|known| known.contains(&tag));
    let mut response = match (same, content) {
        (true, _) => Response::new(Body::empty()),
        (false, Cow::Borrowed(content)) => Response::new(Body::from(Bytes::from_static(content))),
        (false, Cow::Owned(content)) => Response::new(Body::from(content)),
    };
    if same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ETAG, crate::names::value(&tag));
    response
}

/// What a browser may do with it.
pub(crate) fn guard(response: &mut Response<Body>, policy: &'static str) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}
