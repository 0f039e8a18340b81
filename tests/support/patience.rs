//! Every wait of a test has an end, and says what it waited for.

use std::future::Future;
use std::time::Duration;

/// Long enough for a loaded machine, short enough that a hang is reported as what it is.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The future's output, or a panic that names what did not happen.
pub async fn patiently<F: Future>(what: &str, future: F) -> F::Output {
    within(PATIENCE, what, future).await
}

/// Like [`patiently`], with a limit that is part of what the test asserts.
pub async fn within<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    match tokio::time::timeout(limit, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited {limit:?} in vain for: {what}"),
    }
}
