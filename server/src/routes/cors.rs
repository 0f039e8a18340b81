//! Cross-origin requests, for the origins that a list names.
//!
//! Only what samekey itself answers for gets these headers: covered requests, the preflights that announce one, and
//! the routes. Everything else belongs to the service behind, `OPTIONS` and all; that is why this is no layer that
//! answers every `OPTIONS` and overwrites what the service exposes. On an answer of the service to a covered request
//! the origin is set, not added, and its own exposed headers stay beside ours. Nothing of it is stored: a replay to
//! another origin gets that one's headers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

/// What scripts may read beside the safelisted ones. `Date` tells them the server's clock.
const EXPOSED: &str = "samekey-state, samekey-actor, idempotent-replayed, x-request-id, retry-after, location, link, \
     etag, date, www-authenticate";
/// What they may send, with the key, without being asked; further names are allowed as asked for, because an origin on the list is
/// trusted with the caller's credentials already.
const ALLOWED: [&str; 5] = ["samekey-actor", "prefer", "x-request-id", "content-type", "authorization"];
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Ten minutes: a changed list takes effect while people look.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// More names than any program sends; the rest is not repeated back.
const MAX_ASKED: usize = 64;

/// An origin, as browsers spell it: `https://app.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(HeaderValue);

/// A text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no origin ({why}); write for instance https://app.example or http://localhost:5173")]
pub struct OriginError {
    text: String,
    why: &'static str,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let error = |why| OriginError { text: text.into(), why };
        if matches!(text, "*" | "null") {
            return Err(error("credentials are allowed, so every origin has to be named"));
        }
        let (scheme, host) = text.split_once("://").ok_or_else(|| error("it has no scheme"))?;
        let uri: Uri = text.parse().map_err(|_| error("it does not parse"))?;
        let port = uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
        let whole = uri.host().filter(|name| !name.is_empty()).map(|name| format!("{name}{port}"));
        if whole.as_deref() != Some(host) {
            return Err(error("it is not scheme, host and port"));
        }
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(error("browsers send it in lower case"));
        }
        let default = match scheme {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        };
        if default.is_some() && uri.port_u16() == default {
            return Err(error("browsers leave the scheme's own port out"));
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| error("it does not parse"))
    }
}

/// The list, empty where there is none: then nothing is added and nothing answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cors {
    origins: Arc<[Origin]>,
}

impl Cors {
    pub(crate) fn new(origins: Vec<Origin>) -> Self {
        Self { origins: origins.into() }
    }

    /// The origin of a request, if the list names it.
    pub(crate) fn origin(&self, headers: &HeaderMap) -> Option<Origin> {
        let mut lines = headers.get_all(ORIGIN).iter();
        let origin = lines.next().filter(|_| lines.next().is_none())?;
        self.origins.iter().find(|listed| listed.0 == *origin).cloned()
    }

    /// What a preflight asks for, where there is a list.
    pub(crate) fn asked(&self, method: &Method, headers: &HeaderMap, key: &HeaderName) -> Option<Asked> {
        if self.origins.is_empty() || *method != Method::OPTIONS || !headers.contains_key(ORIGIN) {
            return None;
        }
        let method = Method::from_bytes(headers.get(ACCESS_CONTROL_REQUEST_METHOD)?.as_bytes()).ok()?;
        Some(Asked { method, keyed: asked_headers(headers).any(|name| name == *key) })
    }

    /// The answer to a preflight. An origin that is not on the list gets one without permission.
    pub(crate) fn allow(&self, origin: Option<&Origin>, asked: &HeaderMap, key: &HeaderName) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let vary = "origin, access-control-request-method, access-control-request-headers";
        headers.insert(VARY, HeaderValue::from_static(vary));
        if let Some(origin) = origin {
            let named = |name: &HeaderName| name == key || ALLOWED.contains(&name.as_str());
            let further = asked_headers(asked).take(MAX_ASKED).filter(|name| !named(name));
            let ours = format!("{key}, {}", ALLOWED.join(", "));
            let allowed = further.fold(ours, |list, name| list + ", " + name.as_str());
            permit(origin, headers);
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, crate::names::value(&allowed));
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
        response
    }

    /// Lets scripts of a listed origin read an answer.
    pub(crate) fn expose(&self, origin: Option<&Origin>, headers: &mut HeaderMap) {
        if self.origins.is_empty() {
            return;
        }
        let varies =
            headers.get_all(VARY).iter().filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        if !varies.map(str::trim).any(|name| name == "*" || name.eq_ignore_ascii_case("origin")) {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        let Some(origin) = origin else { return };
        let theirs = headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter().filter_map(|line| line.to_str().ok());
        // With credentials `*` is the name of a header.
        let exposed =
            theirs.filter(|line| line.trim() != "*").fold(EXPOSED.to_owned(), |list, line| list + ", " + line);
        permit(origin, headers);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, crate::names::value(&exposed));
    }
}

/// What a preflight announces.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) keyed: bool,
}

fn asked_headers(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let lines = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).filter_map(|name| name.trim().parse().ok())
}

fn permit(origin: &Origin, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.0.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_browsers_send() {
        for text in ["https://app.example", "http://localhost:5173", "http://[::1]:8080"] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), text);
        }
        for text in [
            "*",
            "null",
            "app.example",
            "https://app.example/",
            "https://App.example",
            "https://app.example:443",
            "https://app.example:80800",
            "https://app.example:",
            "https://app.example?x",
            "https://a@b",
            "https://",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_the_service_exposes_stays_and_nothing_is_doubled() {
        let app: Origin = "https://app.example".parse().unwrap();
        let cors = Cors::new(vec![app.clone()]);
        let mut headers = HeaderMap::new();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-total"));
        headers.insert(VARY, HeaderValue::from_static("accept, Origin"));
        cors.expose(Some(&app), &mut headers);
        assert_eq!(headers.get_all(ACCESS_CONTROL_ALLOW_ORIGIN).iter().collect::<Vec<_>>(), ["https://app.example"]);
        assert_eq!(headers.get_all(VARY).iter().count(), 1);
        let exposed = headers[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
        assert!(exposed.contains("samekey-state") && exposed.ends_with("x-total"), "{exposed}");
        let mut untouched = HeaderMap::new();
        Cors::default().expose(Some(&app), &mut untouched);
        assert!(untouched.is_empty());
    }
}
