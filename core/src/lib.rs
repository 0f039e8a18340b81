//! The rules of samekey as pure functions over plain data: no I/O, no clock, no async.
#![no_std]

extern crate alloc;
