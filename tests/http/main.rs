//! The HTTP contract, through the real binary and real sockets. Written from the contract, not from the code.

mod actors;
mod classes;
mod coverage;
mod crash;
mod fixture;
mod forwarding;
mod hang_up;
mod hostile;
mod keys;
mod large;
mod limits;
mod mismatch;
mod privacy;
mod replay;
mod shutdown;
mod start;
mod store_faults;
mod stored_headers;
mod streaming;
mod timeouts;
mod two_servers;
mod upstream_faults;
mod waiting;
