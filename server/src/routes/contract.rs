//! `GET contract`: what every operation promises, so that clients need not be told by hand.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use samekey_core::{KeyRule, KeyTime, Timeless};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::layer::{Published, Shared, published};
use crate::names;

pub(super) async fn get(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let mut contract = document(&shared);
    // Weak, because the time of the server is no part of what is promised.
    let tag = format!("W/\"{}\"", crate::hex(&Sha256::digest(contract.to_string())[..16]));
    let known = is_known(request.headers(), &tag);
    contract["server_time"] = shared.store.now().as_millis().into();
    let body = if known { Body::empty() } else { Body::from(contract.to_string()) };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ETAG, names::value(&tag)),
        (CACHE_CONTROL, FRESH),
    ];
    let status = if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    (status, headers, body).into_response()
}

/// A minute: a client learns of a new configuration soon, and a page with many forms asks once.
const FRESH: HeaderValue = HeaderValue::from_static("public, max-age=60");

fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|known| matches!(known.trim(), known if known == tag || known == "*"))
}

fn document(shared: &Shared) -> Value {
    let mut operations = published(shared);
    let default = operations.iter().position(|operation| operation.automatic).map(|at| operations.remove(at));
    json!({
        "version": 1,
        "prefix": &*shared.prefix,
        "headers": {
            "key": shared.key_header.as_str(),
            "state": names::STATE.as_str(),
            "replayed": names::REPLAYED.as_str(),
            "actor": names::ACTOR.as_str(),
            "request_id": names::REQUEST_ID.as_str(),
        },
        "operations": operations.iter().map(described).collect::<Vec<_>>(),
        "default": default.as_ref().map(described),
    })
}

fn described(operation: &Published) -> Value {
    let Published { policy, profile, method, path, automatic } = operation;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let significant: Value = serde_json::from_str(&profile.definition()).unwrap_or_default();
    json!({
        "name": (!automatic).then_some(&policy.operation),
        "method": method.as_ref().map(http::Method::as_str),
        "path": path,
        "key": match policy.key {
            KeyRule::Required => "required",
            KeyRule::Optional => "optional",
            KeyRule::Ignore => "ignore",
        },
        "anonymous": policy.anonymous,
        "significant": significant,
        "retry_budget_ms": millis(policy.retry_budget),
        "retention_ms": millis(policy.retention),
        "remember_ms": millis(policy.remember),
        "timeout_ms": millis(policy.timeout),
        "default_wait_ms": millis(policy.default_wait),
        "max_wait_ms": millis(policy.max_wait),
        "max_body_bytes": policy.max_body_bytes,
        "late_retry": {
            // Older than the memory: refused where the key tells, else as new as any other.
            "timed": if policy.key_time == KeyTime::Carried { "key_expired" } else { "runs_again" },
            "timeless": if policy.timeless == Timeless::Keep { "response_not_stored" } else { "runs_again" },
            "clock_skew_ms": millis(policy.clock_skew),
        },
    })
}
