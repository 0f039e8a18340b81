//! The HTTP contract, through the real binary and real sockets.

mod fixture;
