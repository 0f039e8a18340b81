//! What operators and their programs see, through the real binary and real sockets: the admin listener and its tokens,
//! metrics, logs, traces.

mod alerts;
mod logs;
mod metrics;
mod tokens;
