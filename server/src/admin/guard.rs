//! Which token opens which route.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use samekey_core::problem::Code;

use super::token::{Scope, Tokens};
use crate::problem::{Problem, plain};

/// Stands before routes; what it lets through carries its [`Grant`](super::token::Grant) as an extension.
#[derive(Clone, Debug)]
pub(crate) struct Guard(Arc<Tokens>);

impl Guard {
    pub(crate) fn new(tokens: Tokens) -> Self {
        Self(Arc::new(tokens))
    }

    /// These routes, for tokens with this scope.
    pub(crate) fn needs<S: Clone + Send + Sync + 'static>(&self, scope: Scope, routes: Router<S>) -> Router<S> {
        self.over(Some(scope), routes)
    }

    /// These routes, for every token.
    pub(crate) fn any<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        self.over(None, routes)
    }

    fn over<S: Clone + Send + Sync + 'static>(&self, scope: Option<Scope>, routes: Router<S>) -> Router<S> {
        routes.layer(from_fn_with_state((self.clone(), scope), check))
    }
}

async fn check(
    State((Guard(tokens), scope)): State<(Guard, Option<Scope>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(token) = bearer(request.headers()) else {
        let why = "Send a token of the token file: Authorization: Bearer TOKEN.";
        return unauthorized(why, "Bearer realm=\"samekey admin\"");
    };
    let Some(grant) = tokens.grant(token).await else {
        tracing::warn!(event = "token_refused", "an unknown token on the admin listener");
        let why = "This token does not stand in the token file.";
        return unauthorized(why, "Bearer realm=\"samekey admin\", error=\"invalid_token\"");
    };
    match scope {
        Some(scope) if !grant.scopes.contains(&scope) => {
            let detail =
                format!("This needs a token with the scope {}; the one that was sent has none.", scope.as_str());
            Problem::new(Code::Forbidden, detail).into_response()
        }
        _ => {
            request.extensions_mut().insert(grant);
            next.run(request).await
        }
    }
}

/// The token of one `Authorization: Bearer …` line.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut lines = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let (scheme, token) = line.split_at_checked("Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then(|| token.trim_ascii())
}

fn unauthorized(detail: &str, challenge: &'static str) -> Response {
    let mut answer = plain(StatusCode::UNAUTHORIZED, detail);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_one_line_only() {
        for (lines, token) in [
            (vec!["Bearer abc"], Some("abc")),
            (vec!["bearer  abc"], Some("abc")),
            (vec!["Basic abc"], None),
            (vec!["Bearer "], None),
            (vec!["Bearer"], None),
            (vec!["Bearer abc", "Bearer abc"], None),
            (vec![], None),
        ] {
            let headers: HeaderMap = lines.iter().map(|line| (AUTHORIZATION, HeaderValue::from_static(line))).collect();
            assert_eq!(bearer(&headers), token.map(str::as_bytes), "{lines:?}");
        }
    }
}
