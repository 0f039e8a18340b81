//! What can be seen from outside: every metric, event, span and field has its name here and nowhere else.
//!
//! Metrics go through the facade of the `metrics` crate: an application that embeds the library sees them with
//! whatever recorder it installs, and pays next to nothing if it installs none. The binary serves them as Prometheus
//! text. The label `operation` is the name of a configured operation or [`OTHER`]: paths, keys and actors never become
//! labels.
//!
//! Events go through `tracing`, with the field `event` for their name; spans, too, at the level `debug`, so that
//! whoever exports none pays for none.

mod count;
mod event;
#[cfg(feature = "cli")]
mod exporter;
mod sampler;
mod span;
mod suspects;
mod table;
mod trace;

pub(crate) use self::count::{
    Decision, Label, Unprotected, answered, committed, handled, in_flight, label, passed, queued, store_failed,
    transition, unprotected, waiting,
};
#[cfg(feature = "cli")]
pub(crate) use self::count::{nothing_yet, reloaded};
pub(crate) use self::event::{
    Asked, Request, StaleFinish, Uncertain, asked, lease_lapsed, request, settled, stale_finish, suspected_duplicate,
    tells_of_requests, uncertain,
};
#[cfg(feature = "cli")]
pub(crate) use self::event::{Claim, claim};
pub(crate) use self::event::{Probe, Probed, Settled, not_settled, probed, swept};
#[cfg(feature = "cli")]
pub(crate) use self::exporter::Exporter;
pub(crate) use self::sampler::{EVERY, Sampler};
pub(crate) use self::span::{claim_span, finish_span, request_span, upstream_span};
pub(crate) use self::suspects::Suspects;
pub use self::table::{Kind, METRICS, Metric, describe};
pub(crate) use self::trace::trace_id;

/// The operation of everything that no configuration names.
pub const OTHER: &str = "other";
