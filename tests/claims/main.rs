//! The claim API, and what operators do with records, through the real binary and real sockets.

mod command;
mod consumer;
mod described;
mod effects;
mod ends;
mod holders;
mod lists;
mod operator;
mod requests;
mod shop;
mod times;
