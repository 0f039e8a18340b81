//! A call as it comes: the values of its path, its query, and a body that is read strictly.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use samekey_core::Policy;
use samekey_core::problem::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use crate::admin::Grant;
use crate::layer::admit;
use crate::problem::Problem;
use crate::store::Store;

/// One call.
pub(super) struct Asked {
    pub(super) api: Arc<Api>,
    /// The values of the path's parameters; fewer where one of them is no text.
    params: Vec<String>,
    pub(super) parts: Parts,
    /// Not `Sync` by itself.
    body: Mutex<Body>,
}

impl FromRequest<Arc<Api>> for Asked {
    type Rejection = Infallible;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Infallible> {
        let (mut parts, body) = request.into_parts();
        let params = match RawPathParams::from_request_parts(&mut parts, api).await {
            Ok(params) => params.iter().map(|(_, value)| value.to_owned()).collect(),
            Err(_) => Vec::new(),
        };
        Ok(Self { api: Arc::clone(api), params, parts, body: Mutex::new(body) })
    }
}

impl Asked {
    pub(super) fn store(&self) -> &Store {
        &self.api.shared.store
    }

    /// A value of the path.
    pub(super) fn param(&self, at: usize) -> &str {
        self.params.get(at).map_or("", String::as_str)
    }

    /// Whose token it is.
    pub(super) fn grant(&self) -> Option<&Grant> {
        self.parts.extensions.get()
    }

    /// The body, which must be what it is said to be: nothing is left out and nothing guessed. An empty one is `{}`.
    pub(super) async fn json<T: DeserializeOwned>(&mut self, at_most: usize) -> Result<T, Problem> {
        let limits = Policy::new("").max_body(at_most);
        let body = std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner));
        let read = admit::body(&self.parts, body, &limits, &self.api.shared.budget).await?;
        let bytes = if read.bytes.is_empty() { &b"{}"[..] } else { &read.bytes[..] };
        parse(bytes)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would read the members of an array in order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(request_invalid("the body must be one JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let what = error.into_inner().to_string();
        if path == "." { request_invalid(&what) } else { invalid(&path, what) }
    })?;
    json.end().map_err(|error| request_invalid(&format!("one JSON object is all there may be: {error}")))?;
    Ok(parsed)
}

/// The request cannot be understood.
pub(super) fn request_invalid(what: &str) -> Problem {
    Problem::new(Code::RequestInvalid, format!("{what}. Nothing was done."))
}

/// A member of the request cannot be used.
pub(super) fn invalid(member: &str, what: impl std::fmt::Display) -> Problem {
    request_invalid(&format!("{member}: {what}")).member("member", member)
}

/// An answer with a JSON body.
pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(json) => (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], json).into_response(),
        Err(error) => {
            tracing::error!(event = "store_error", %error, "an answer has no JSON form");
            crate::problem::plain(StatusCode::INTERNAL_SERVER_ERROR, "The answer has no JSON form.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::json::Json;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        name: String,
        #[serde(default, deserialize_with = "Json::present")]
        payload: Option<Json>,
    }

    #[test]
    fn any_json_stays_as_it_was_written() {
        for text in [r#"{ "a" : 9007199254740993 }"#, "1.0", "null", r#"{"a":1,"a":2}"#, "1e400"] {
            let sample: Sample = parse(format!(r#"{{"name":"x","payload": {text} }}"#).as_bytes()).unwrap();
            assert_eq!(sample.payload.unwrap().bytes(), text);
            assert_eq!(sample.name, "x");
        }
        assert!(parse::<Sample>(br#"{"name":"x"}"#).unwrap().payload.is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, hint) in [
            (r#"{"name":1}"#, "name: invalid type: integer `1`, expected a string"),
            (r#"{"name":"x","x":1}"#, "unknown field `x`, expected `name` or `payload`"),
            (r#"{"name":"x","name":"y"}"#, "duplicate field `name`"),
            ("{}", "missing field `name`"),
            (r#"{"name":"x"} 1"#, "one JSON object"),
            (r#"{"name":"x""#, "EOF"),
            (r#"["x", 1]"#, "must be one JSON object"),
            ("\"x\"", "must be one JSON object"),
        ] {
            let problem = parse::<Sample>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.code, Code::RequestInvalid);
            assert!(problem.detail.contains(hint), "{text}: {}", problem.detail);
        }
    }
}
