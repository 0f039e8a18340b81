//! One intent, same key, one effect.

#[path = "placeholder.rs"]
pub mod layer;
#[allow(dead_code)]
pub mod names;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod demo;
#[cfg(feature = "cli")]
pub mod proxy;
