//! The claim API: keys for programs that are not HTTP services, and records for operators.
//!
//! ```text
//! POST /v1/claims                          201 claimed, 200 it ran before, 409 a refusal with its code
//! POST /v1/claims/{id}/effects/{name}      started, finished with its result, or unknown
//! POST /v1/claims/{id}/effects/{name}/finish
//! POST /v1/claims/{id}/heartbeat
//! POST /v1/claims/{id}/complete | fail | release | uncertain
//! GET  /v1/records, /v1/records/{id}
//! POST /v1/records/{id}/settle
//! ```
//!
//! Claims are won by the very delivery that HTTP requests make. What is different is who holds them: nobody in this
//! process, so nothing renews them but their holder's heartbeats, and nothing here ends with a connection. Whatever a
//! call needs to know stands in the [claim's name](claim_id), so that it may go to any server of the store, and be
//! repeated.

mod asked;
mod claim_id;
mod claims;
mod effects;
mod ends;
mod held;
pub(crate) mod json;
mod openapi;
mod payload;
pub(crate) mod records;
pub(crate) mod settle;
pub(crate) mod view;

use std::sync::Arc;

use axum::Router;

use self::openapi::Book;
use crate::admin::Guard;
use crate::layer::Shared;

/// What all routes need.
#[derive(Clone)]
pub(crate) struct Api {
    /// Of the layer that serves HTTP: one store, one waiting room, one budget for bodies, one list of operations.
    shared: Arc<Shared>,
}

impl Api {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

/// All routes, each for tokens with its scope, and their description.
pub(crate) fn routes(api: Api, guard: &Guard) -> Router {
    let mut book = Book::new(guard);
    claims::add(&mut book);
    effects::add(&mut book);
    ends::add(&mut book);
    records::add(&mut book);
    settle::add(&mut book);
    book.bound(Arc::new(api))
}
