//! The claim API, and what operators do with records, through the real binary and real sockets.

mod effects;
mod ends;
mod holders;
mod requests;
mod shop;
mod times;
