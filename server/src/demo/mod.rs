//! What `samekey demo` shows: a small shop that knows nothing of idempotency, and what to try.

mod shop;
mod text;

pub(crate) use shop::shop;
pub(crate) use text::{Addresses, walkthrough};
