//! Outcomes that nobody knows, and how each comes to its end: real sockets, real processes, real time.

mod answers;
mod processes;
mod settled;
mod shop;
mod silence;
