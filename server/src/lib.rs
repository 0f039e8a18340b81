//! One intent, same key, one effect: makes a POST safe to retry.
//!
//! A client that saw a timeout does not know whether its command ran. With samekey it sends the same request with
//! the same `Idempotency-Key` again: at most one effect per key while the claim is remembered, the stored answer for
//! every other delivery, and an honest refusal where the outcome is unknown.

#[cfg(feature = "cli")]
mod admin;
#[cfg(feature = "cli")]
mod api;
pub mod claim;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clock;
mod command;
#[cfg(feature = "cli")]
mod demo;
mod keep;
pub mod key;
pub mod layer;
pub mod names;
pub mod observe;
#[cfg(feature = "postgres")]
pub mod postgres;
mod probe;
mod problem;
#[cfg(feature = "cli")]
mod proxy;
mod record;
mod routes;
pub mod sqlite;
#[cfg(feature = "cli")]
mod static_file;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use claim::{Claim, Claimed, EffectError, ProviderKey};
pub use command::{Answer, Command, Fingerprint, Outcome};
pub use layer::{ActorSource, CommandLayer, Idempotency, IdempotencyLayer, Limits, Means, ResultId, Running};
pub use probe::{About, Probe, Probed};
pub use problem::{DEFAULT_PREFIX, Problem};
pub use record::{Record, Revision, Settlement};
pub use routes::{Origin, OriginError, Prefix, PrefixError};
pub use samekey_core::claim::{Reason, State};
pub use samekey_core::problem::{Code, Next};
pub use samekey_core::select::Significant;
pub use samekey_core::{
    Actor, Keep, Key, KeyError, KeyRule, KeyTime, OutcomeClass, Policy, PolicyError, Recovery, Timeless, Timestamp,
};
pub use sqlite::RunError;
pub use store::{RecordId, Store, StoreError};

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Fills bytes from the system's cryptographic source.
///
/// # Panics
/// If there is none: nothing could be claimed safely, and retrying would not help.
pub(crate) fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has a source of random bytes");
}

/// A nonce that no claim had before.
pub(crate) fn new_holder() -> samekey_core::claim::Holder {
    let mut bytes = [0; 16];
    random(&mut bytes);
    samekey_core::claim::Holder::from_bytes(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
        text
    })
}
