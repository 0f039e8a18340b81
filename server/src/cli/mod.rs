//! The command line of the binary.

pub mod demo;
pub mod logs;
