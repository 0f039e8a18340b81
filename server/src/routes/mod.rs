//! The routes for clients, under one prefix: the status of a key, closing it, the contract, and a page for each
//! code.
//!
//! The same router stands in front of a proxied service and in the router of an application, by
//! [`crate::IdempotencyLayer::routes`]. What lies under the prefix and is none of them is answered here, too.

mod close;
mod contract;
mod cors;
mod front;
mod place;
mod problems;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any, get};
use http::header::{CACHE_CONTROL, VARY};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use samekey_core::fingerprint::{Payload, fingerprint};
use samekey_core::uri::percent_decode;
use samekey_core::{Actor, Key, Policy};

pub(crate) use cors::Cors;
pub use cors::{Origin, OriginError};
pub(crate) use front::Front;
pub use place::{Prefix, PrefixError};

use crate::layer::{Route, Shared, admit, by_name, is_covered, request_id};
use crate::names;
use crate::observe;
use crate::problem::{Place, Problem};
use crate::store::Ask;

/// The routes, for a router with any state.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(shared: Arc<Shared>) -> Router<S> {
    let prefix = shared.prefix.to_string();
    let under = |path: &str| format!("{prefix}{path}");
    Router::new()
        .route(&under("/status"), get(status::get).delete(close::delete))
        .route(&under("/contract"), get(contract::get))
        .route(&under("/problems"), get(problems::index))
        .route(&under("/problems/"), get(problems::index))
        .route(&under("/problems/{code}"), get(problems::get))
        .route(&prefix, any(unknown))
        .route(&under("/"), any(unknown))
        .route(&under("/{*rest}"), any(unknown))
        .layer(from_fn_with_state(Arc::clone(&shared), with_cors))
        .with_state(shared)
}

async fn unknown() -> Response {
    plain(StatusCode::NOT_FOUND, "There is no such route of samekey.")
}

async fn with_cors(
    axum::extract::State(shared): axum::extract::State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let origin = shared.cors.origin(request.headers());
    if shared.cors.asked(request.method(), request.headers(), &shared.key_header).is_some() {
        return shared.cors.allow(origin.as_ref(), request.headers(), &shared.key_header);
    }
    let mut response = next.run(request).await;
    shared.cors.expose(origin.as_ref(), response.headers_mut());
    response
}

/// A refusal that says nothing about any key, so that no client settles by it.
fn plain(status: StatusCode, detail: &str) -> Response {
    let mut response = crate::problem::plain(status, detail);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A caller who asks about a key: admitted as a delivery would be.
struct Caller {
    ask: Ask,
    /// Deliveries of this operation with a key pass untouched: that there is no record proves nothing.
    passes: bool,
    parts: Parts,
    request_id: HeaderValue,
}

impl Caller {
    /// Actor, key and operation of a request; the refusal that a delivery would hear, too.
    async fn admit(shared: &Shared, mut parts: Parts) -> Result<Self, Response> {
        let request_id = request_id(&mut parts);
        let expected: Vec<HeaderValue> = parts.headers.get_all(names::ACTOR).iter().cloned().collect();
        names::strip_ours(&mut parts.headers);
        shared.actor.strip(&mut parts);
        let Some(name) = operation(parts.uri.query()) else {
            return Err(plain(StatusCode::BAD_REQUEST, "Name the operation: ?operation=orders.create"));
        };
        let refuse = |problem: Problem| problem.answer(&Place { prefix: &shared.prefix, operation: Some(&name) });
        let route = by_name(shared, &name);
        let policy = route.as_ref().map_or_else(|| Arc::new(Policy::new(name.clone())), |route| route.policy.clone());
        let actor = admit::actor(shared, &parts, &policy).await.map_err(refuse)?;
        admit::expected(shared, &actor, &expected).map_err(refuse)?;
        let key = admit::key(shared, &parts, &policy, &actor).map_err(refuse)?;
        let Some(route) = route else {
            return Err(plain(StatusCode::NOT_FOUND, "There is no such operation; see the contract."));
        };
        let passes = !is_covered(shared, &name, &route);
        Ok(Self { ask: ask(shared, route, actor, key), passes, parts, request_id })
    }

    /// Adds what every answer about a key carries.
    fn finish(&self, mut response: Response, shared: &Shared, event: &str) -> Response {
        let Ask { actor, key, operation, .. } = &self.ask;
        let place = Place { prefix: &shared.prefix, operation: Some(operation) };
        crate::problem::finish(&mut response, &place);
        let status = response.status().as_u16();
        let headers = response.headers_mut();
        headers.insert(names::REQUEST_ID, self.request_id.clone());
        // The stored answer is given as it was; nobody caches what a DELETE hears.
        if !headers.contains_key(names::REPLAYED) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.append(VARY, names::value(&format!("{}, Authorization", admit::spelled(&shared.key_header))));
        }
        if let Some(tag) = shared.actor.tag(actor, &shared.store) {
            headers.insert(names::ACTOR, tag);
        }
        if observe::tells_of_requests() {
            observe::asked(&observe::Asked {
                event,
                request_id: self.request_id.to_str().unwrap_or("-"),
                operation,
                state: headers.get(names::STATE).and_then(|state| state.to_str().ok()),
                key_hash: &shared.store.log_hash("key", key.expose()),
                actor_hash: &shared.store.log_hash("actor", actor.stored()),
                status,
            });
        }
        response
    }
}

/// A question about a record. Nothing is bound by it, so its fingerprint is that of nothing.
fn ask(shared: &Shared, route: Route, actor: Actor, key: Key) -> Ask {
    let nothing =
        Payload { path_params: &[], query: None, content_type: None, content_encoding: None, headers: &[], body: b"" };
    Ask {
        actor,
        operation: route.operation,
        also: route.also,
        configured: route.configured,
        named: route.named,
        key,
        fingerprint: fingerprint(&nothing, &route.profile),
        profile: route.profile,
        request_id: None,
        holder: crate::new_holder(),
        fence_credentials: admit::fences(shared, &route.policy),
        policy: route.policy,
    }
}

/// The value of `operation` in a query string, as forms encode it.
fn operation(query: Option<&str>) -> Option<String> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("operation="))?;
    let bytes = percent_decode(value.replace('+', " ").as_bytes()).ok()?.into_owned();
    String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operation_is_read_as_forms_write_it() {
        for (query, name) in [
            ("operation=orders.create", Some("orders.create")),
            ("x=1&operation=POST%20%2Forders", Some("POST /orders")),
            ("operation=POST+%2Forders%2B1", Some("POST /orders+1")),
            ("operation=", None),
            ("operation=%zz", None),
            ("operation=%ff", None),
            ("operations=x", None),
        ] {
            assert_eq!(operation(Some(query)).as_deref(), name, "{query}");
        }
        assert_eq!(operation(None), None);
    }
}
