//! The rules of samekey as pure functions over plain data: no I/O, no clock, no async.
#![no_std]

extern crate alloc;

#[cfg(test)]
extern crate std;

pub mod fingerprint;
mod hex;
pub mod json;
pub mod select;
mod token;
pub mod uri;
