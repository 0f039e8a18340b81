//! What can be seen from outside: every metric, event, span and field has its name here and nowhere else.
//!
//! Metrics go through the facade of the `metrics` crate: an application that embeds the library sees them with
//! whatever recorder it installs, and pays next to nothing if it installs none. The binary serves them as Prometheus
//! text. The label `operation` is the name of a configured operation or [`OTHER`]: paths, keys and actors never become
//! labels.

#[cfg(feature = "cli")]
mod exporter;
mod table;

#[cfg(feature = "cli")]
pub(crate) use self::exporter::Exporter;
pub use self::table::{Kind, METRICS, Metric, describe};
