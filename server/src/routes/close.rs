//! `DELETE status?operation=…`: a client closes a key that never ran, so that it never will.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use samekey_core::claim::Say;
use samekey_core::problem::Code;

use super::{Caller, status};
use crate::layer::{Shared, answer};

/// Closed, also when it was before; or what a delivery would hear.
pub(super) async fn delete(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let caller = match Caller::admit(&shared, request.into_parts().0).await {
        Ok(caller) => caller,
        Err(refusal) => return refusal,
    };
    let ask = &caller.ask;
    // A key that passed may have run, and closing would say that it did not.
    let unknown = caller.passes && matches!(shared.store.find(ask).await, Ok(None));
    if unknown {
        return caller.finish(status::not_covered(ask, &shared.store), &shared, "close");
    }
    let response = match shared.store.close_key(ask.clone()).await {
        Err(error) => crate::Problem::from(error).into_response(),
        Ok(told) => {
            let refuse = |code| answer::refusal(code, &told, &ask.key, &ask.policy).into_response();
            match (told.say, &told.found, &told.response) {
                (Say::Closed, found, _) => status::answer(found.as_ref(), ask, &shared.store),
                (Say::Replay, Some(found), Some(response)) => answer::replay(&found.record, response.clone()),
                (Say::Refuse(code), ..) => refuse(code),
                (Say::Wait, ..) => refuse(Code::OperationInProgress),
                _ => refuse(Code::StoreUnavailable),
            }
        }
    };
    caller.finish(response, &shared, "close")
}
