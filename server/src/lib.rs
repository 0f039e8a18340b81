//! One intent, same key, one effect.

pub mod clock;
pub mod store;
