//! The proxy is the idempotency layer over a service that forwards: one implementation of the
//! rules, whether the handler is a function in this process or a server behind a socket.

pub(crate) mod admin;
pub(crate) mod ask;
pub(crate) mod forward;
mod hop;
pub(crate) mod listen;
mod outgoing;
mod tunnel;
