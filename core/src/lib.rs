//! The rules of samekey as pure functions over plain data: no I/O, no clock, no async.
//!
//! *One intent, same key, one effect.* A client mints one [`Key`] per intent and sends it on every delivery.
//! A server binds the key to the [`fingerprint`](fingerprint::Fingerprint) of the payload in the scope of actor
//! and operation, lets one delivery through to the effect, and gives every other one the stored answer or an
//! honest refusal. Which of these it is, [`claim`] decides; time and chance are arguments, so that servers,
//! browsers, simulators and model checkers run the same lines.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod answer;
pub mod claim;
pub mod fingerprint;
mod hex;
pub mod intent;
pub mod json;
mod key;
mod policy;
pub mod problem;
pub mod receipt;
pub mod response;
mod scope;
pub mod select;
mod time;
mod token;
pub mod uri;

pub use key::{Key, KeyError, MAX_KEY_CHARS};
pub use policy::{Keep, KeyRule, KeyTime, OutcomeClass, Policy, PolicyError, Recovery, Timeless};
pub use scope::{Actor, Scope};
pub use time::Timestamp;
