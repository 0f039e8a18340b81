//! The client's engine: what an answer proves, and what holds whatever happens.

mod campaign;
mod chance;
mod server;
mod world;
