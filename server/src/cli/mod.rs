//! The command line of the binary.

mod demo;
mod logs;
