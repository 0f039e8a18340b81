//! Claiming as a library: the right to run a command once, from any program that has a [`Store`](crate::Store).
//!
//! ```
//! use samekey::{Actor, Answer, Claimed, Command, EffectError, Fingerprint, Outcome, Policy, Problem, Store};
//! use http::StatusCode;
//!
//! async fn charge(key: &str, cents: u64) -> Result<String, std::io::Error> {
//!     Ok(format!("ch_{cents}_{key}"))
//! }
//!
//! async fn pay(store: &Store, policy: &Policy, command: &Command, cents: u64) -> Result<Outcome, Problem> {
//!     let mut claim = match store.claim(command, policy).await? {
//!         Claimed::Run(claim) => claim,
//!         Claimed::Replay(outcome) => return Ok(outcome),
//!     };
//!     let call = |key: samekey::ProviderKey| async move { charge(key.as_str(), cents).await.map_err(EffectError::unknown) };
//!     let id: String = claim.effect("charge", call).await?;
//!     claim.complete(Answer::json(StatusCode::CREATED, &id).result_id(id)).await
//! }
//! ```
//!
//! An external call is an effect outside the database: no transaction covers it. What the journal promises is that a
//! call which ended is not made again, and that one of which nobody knows how it ended is neither repeated nor
//! forgotten.

mod attempt;
mod effect;
mod guard;
mod wait;

pub(crate) use attempt::{Asked, Attempt, OPEN, Otherwise, stale};
#[cfg(feature = "cli")]
pub(crate) use effect::MAX_NAME_BYTES;
pub(crate) use effect::{CutShort, input_of};
pub use effect::{EffectError, MAX_RESULT_BYTES, ProviderKey};
#[cfg(feature = "cli")]
pub(crate) use guard::MAX_WHY_CHARS;
pub(crate) use guard::waiting_room;
pub use guard::{Claim, Claimed};
pub(crate) use wait::{LOOK_AGAIN_LEAST, LOOK_AGAIN_MOST, WaitingRoom, wait};
