//! `GET /v1/records` and `GET /v1/records/{id}`: which commands are how, for people.

use axum::response::Response;
use http::StatusCode;
use samekey_core::claim::State;
use samekey_core::problem::Code;
use samekey_core::uri::percent_decode;
use samekey_core::{Key, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::asked::{Asked, answer, invalid, request_invalid};
use super::held::forgotten;
use super::openapi::{Book, Doc};
use super::view::{RecordDetail, RecordView};
use crate::admin::Scope;
use crate::cli::duration;
use crate::layer::actor_of;
use crate::names;
use crate::problem::Problem;
use crate::store::{RecordId, Search, Store};

const DEFAULT_LIMIT: usize = 50;
const MOST: usize = 500;

/// Which records; what is left out does not matter.
#[derive(Clone, Debug, Default, JsonSchema)]
#[allow(dead_code, reason = "it describes what `search` reads")]
struct RecordsQuery {
    /// `in_progress`, `completed`, `failed`, `released`, `uncertain` or `expired`.
    state: Option<String>,
    operation: Option<String>,
    /// The actor's id.
    actor: Option<String>,
    /// What logs call the actor.
    actor_hash: Option<String>,
    /// What logs call the key, or its beginning. The key itself goes into the header `Idempotency-Key`.
    key_hash: Option<String>,
    request_id: Option<String>,
    result_id: Option<String>,
    /// Made so long ago or longer: `30m`, `2d`.
    older_than: Option<String>,
    /// Made so long ago or later.
    newer_than: Option<String>,
    /// At most so many, up to 500.
    limit: Option<u64>,
    /// `more` of the page before.
    before: Option<i64>,
}

/// Records that fit, the newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RecordsPage {
    pub(crate) records: Vec<RecordView>,
    /// The list goes on before this record, also where a page is short: what is looked at for one is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more: Option<i64>,
    pub(crate) server_time: i64,
}

pub(super) fn add(book: &mut Book<'_>) {
    book.add(
        Doc::get("/v1/records", Scope::Read, "list_records")
            .says("Records", "The newest first, a page at a time.")
            .query::<RecordsQuery>()
            .headers(&[(
                "Idempotency-Key",
                "Records of this key. It is a secret to some, so it does not go into the URL.",
            )])
            .gives::<RecordsPage>(200, "A page.")
            .refuses(&[Code::RequestInvalid, Code::KeyInvalid, Code::Overloaded, Code::StoreUnavailable]),
        list,
    );
    book.add(
        Doc::get("/v1/records/{record_id}", Scope::Read, "show_record")
            .says("A record and what happened to it", "Never payload, key or actor.")
            .gives::<RecordDetail>(200, "The record.")
            .refuses(&[Code::ClaimNotFound, Code::Overloaded, Code::StoreUnavailable]),
        show,
    );
}

async fn list(asked: Asked) -> Result<Response, Problem> {
    let (mut search, before, limit) = search(asked.parts.uri.query().unwrap_or_default(), asked.store().now())?;
    let lines = asked.parts.headers.get_all(names::KEY).iter().map(http::HeaderValue::as_bytes);
    search.key = Key::parse_lines(lines)
        .map_err(|error| Problem::new(Code::KeyInvalid, format!("Idempotency-Key: {error}.")))?;
    Ok(answer(StatusCode::OK, &page(asked.store(), &search, before, limit).await?))
}

/// A page of records.
pub(crate) async fn page(
    store: &Store,
    search: &Search,
    before: Option<i64>,
    limit: usize,
) -> Result<RecordsPage, Problem> {
    let page = store.records(search, before.map(RecordId), limit).await?;
    Ok(RecordsPage {
        records: page.list.iter().map(|listed| RecordView::of(listed, store)).collect(),
        more: page.more.map(|id| id.0),
        server_time: store.now().as_millis(),
    })
}

/// Reads a query strictly: what is not known is not left out silently.
fn search(query: &str, now: Timestamp) -> Result<(Search, Option<i64>, usize), Problem> {
    let (mut search, mut before, mut limit) = (Search::default(), None, DEFAULT_LIMIT);
    let mut seen = std::collections::BTreeSet::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode(value.replace('+', " ").as_bytes()).ok().map(std::borrow::Cow::into_owned);
        let value = value.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|value| !value.contains('\0'));
        let value = value.ok_or_else(|| invalid(name, "its value is not percent-encoded text"))?;
        if !seen.insert(name) {
            return Err(invalid(name, "it stands there twice"));
        }
        let ago = || duration(&value).map(|ago| now - ago).map_err(|error| invalid(name, error));
        match name {
            "state" => {
                let state = State::from_name(&value);
                let why = "write in_progress, completed, failed, released, uncertain or expired";
                search.state = Some(state.ok_or_else(|| invalid(name, why))?);
            }
            "operation" => search.operation = Some(value),
            "actor" => search.actor = Some(actor_of(&value).ok_or_else(|| invalid(name, "no actor has such an id"))?),
            "actor_hash" => search.actor_hash = Some(hash(name, &value)?),
            "key_hash" => search.key_hash = Some(hash(name, &value)?),
            "request_id" => search.request_id = Some(value),
            "result_id" => search.result_id = Some(value),
            "older_than" => search.until = Some(ago()?),
            "newer_than" => search.since = Some(ago()?),
            "limit" => {
                let given = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
                limit = given.ok_or_else(|| invalid(name, format!("write a number from 1 to {MOST}")))?;
            }
            "before" => {
                let given = value.parse().map_err(|_| invalid(name, "write what `more` of the page before says"))?;
                before = Some(given);
            }
            _ => return Err(request_invalid(&format!("there is no parameter {name:?} here"))),
        }
    }
    Ok((search, before, limit))
}

/// As logs print it: 8 hexadecimal digits, or the first of them.
pub(crate) fn hash(name: &str, value: &str) -> Result<String, Problem> {
    let is_hash = (1..=8).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let why = "write up to 8 hexadecimal digits, as the log has them";
    is_hash.then(|| value.to_ascii_lowercase()).ok_or_else(|| invalid(name, why))
}

async fn show(asked: Asked) -> Result<Response, Problem> {
    let id = asked.param(0).parse().map_err(|_| forgotten())?;
    Ok(answer(StatusCode::OK, &detail(asked.store(), RecordId(id)).await?))
}

/// A record and what happened to it.
pub(crate) async fn detail(store: &Store, id: RecordId) -> Result<RecordDetail, Problem> {
    // Before the look: what happens meanwhile makes another revision, or counts as not seen.
    let looked_at = store.now();
    let Some(listed) = store.listed(id).await? else { return Err(forgotten()) };
    let (effects, steps) = (store.effects(id).await?, store.trail(id).await?);
    Ok(RecordDetail::of(&listed, effects, &steps, looked_at, store))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_strictly() {
        let now = Timestamp::from_millis(10_000);
        let (found, before, limit) =
            search("state=uncertain&operation=POST+%2Forders&older_than=3s&limit=7&before=9&key_hash=9F", now).unwrap();
        assert_eq!(found.state, Some(State::Uncertain));
        assert_eq!(found.operation.as_deref(), Some("POST /orders"));
        assert_eq!(found.until, Some(Timestamp::from_millis(7_000)));
        assert_eq!((before, limit, found.key_hash.as_deref()), (Some(9), 7, Some("9f")));
        for bad in [
            "state=lost",
            "colour=red",
            "limit=0",
            "limit=501",
            "before=x",
            "older_than=3",
            "key_hash=xyz",
            "state=failed&state=failed",
            "actor=",
            "operation=%ff",
            "result_id=%00",
        ] {
            assert_eq!(search(bad, now).unwrap_err().code, Code::RequestInvalid, "{bad}");
        }
    }
}
