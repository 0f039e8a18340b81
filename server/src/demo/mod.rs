//! What `samekey demo` shows: a small shop that knows nothing of idempotency, and what to try.

mod shop;
mod text;

pub use shop::shop;
pub use text::{Addresses, walkthrough};
