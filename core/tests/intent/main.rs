//! The client's engine: what an answer proves, and what holds whatever happens.

mod bench;
mod calls;
mod campaign;
mod chance;
mod deliveries;
mod golden;
mod server;
mod table;
mod world;
