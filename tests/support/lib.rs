//! What the black-box suites share: the binary, a scripted upstream, raw sockets.
//!
//! Nothing here knows the implementation: bytes go in on one socket, come out on another, and the ledger of the
//! upstream says how often something really happened.

pub mod answer;
pub mod binary;
pub mod build;
pub mod curl;
pub mod h2;
pub mod keys;
pub mod logs;
pub mod patience;
pub mod postgres;
pub mod raw;
pub mod receipt;
pub mod relay;
pub mod request;
pub mod scrape;
pub mod tls;
pub mod upstream;
pub mod wire;

pub use answer::{Answer, Problem};
pub use binary::{Serve, Server};
pub use postgres::Postgres;
pub use raw::Connection;
pub use receipt::Receipt;
pub use request::Request;
pub use scrape::Scrape;
pub use upstream::{Gate, Reply, Upstream};
