//! The proxy is the idempotency layer over a service that forwards: one implementation of the
//! rules, whether the handler is a function in this process or a server behind a socket.

mod arriving;
pub(crate) mod ask;
mod connect;
pub(crate) mod forward;
mod forwarded;
mod guard;
mod hop;
pub(crate) mod listen;
mod outgoing;
pub(crate) mod probe;
mod socket;
mod trailers;
mod tunnel;
