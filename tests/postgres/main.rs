//! Many servers on one PostgreSQL database.
//!
//! The campaign is short here; `cargo xtask campaign` runs it at length.

mod campaign;
mod migrating;
mod servers;
