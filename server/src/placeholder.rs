//! Placeholder for `layer` until that compiles: delete this file and its line in lib.rs then.

/// Why there is no answer of the handler's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was sent: the effect cannot have happened.
    NotSent {
        /// For the log.
        detail: String,
    },
    /// The request may have been sent, and no answer came.
    Unknown {
        /// For the log.
        detail: String,
    },
}
