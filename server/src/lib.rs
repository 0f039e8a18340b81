//! One intent, same key, one effect.

#[path = "placeholder.rs"]
pub mod layer;
#[allow(dead_code)]
pub mod names;

#[cfg(feature = "cli")]
#[allow(dead_code)]
mod cli;
#[cfg(feature = "cli")]
mod demo;
#[cfg(feature = "cli")]
#[allow(dead_code)]
mod proxy;
