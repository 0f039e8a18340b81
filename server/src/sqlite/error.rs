//! Why a run came to nothing.

use axum::response::{IntoResponse, Response};

use crate::problem::Problem;
use crate::store::StoreError;

/// Why [`super::run_once`] has no answer. Exhaustive on purpose: each end needs its own handling.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// The effect failed. Everything was rolled back: the same key may run again.
    #[error("the effect failed and was rolled back: {0}")]
    Effect(E),
    /// The delivery does not run, and this is what it hears.
    #[error(transparent)]
    Refused(Problem),
    /// The connection cannot be used, or the database failed.
    #[error(transparent)]
    Store(StoreError),
}

impl<E> From<StoreError> for RunError<E> {
    fn from(error: StoreError) -> Self {
        // Another connection holds the write lock: nothing ran, and the caller can come again.
        if error.is_transient() { Self::Refused(Problem::from(error)) } else { Self::Store(error) }
    }
}

impl<E: IntoResponse> IntoResponse for RunError<E> {
    fn into_response(self) -> Response {
        match self {
            Self::Effect(error) => error.into_response(),
            Self::Refused(problem) => problem.into_response(),
            Self::Store(error) => Problem::from(error).into_response(),
        }
    }
}
