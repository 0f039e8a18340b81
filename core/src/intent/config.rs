//! What an application says about its commands. Nothing of it is kept but what a record needs to be resumed.

use alloc::string::String;
use alloc::vec::Vec;

use super::record::Millis;
use crate::select::Significant;

/// The engine's settings.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Origin of the page, as `location.origin` spells it; nothing where there is none.
    pub origin: Option<String>,
    /// Origin to which the paths in [`Operation::matches`] belong: that of `baseUrl`, or the page's own.
    pub base: Option<String>,
    /// Which header carries the id of a delivery.
    pub request_id: RequestId,
    /// What every operation does that says nothing itself.
    pub retry: Retry,
    /// Named operations, in the order in which they are tried.
    pub operations: Vec<Operation>,
    /// The application can renew credentials: a first 401 asks it to.
    pub can_refresh: bool,
    /// Locks of the shell end with the page that holds them, so that a free one proves that its last holder is gone.
    pub locks: bool,
}

/// Which header carries the id of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestId {
    /// `X-Request-Id`, where it costs no preflight: to the page's own origin and to servers known to be samekey.
    #[default]
    Auto,
    /// None.
    Off,
    /// This header, everywhere.
    Named(String),
}

/// One named operation.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// `orders.create`.
    pub name: String,
    /// Requests that belong to it, `PATCH /api/orders/:id`: a method (or none for all), and a path or a whole URL, in
    /// which `:name` is one segment and a `*` at the end the rest. Nothing: only calls that name it.
    pub matches: Option<String>,
    /// What of a payload makes two calls the same intent. The URL always counts.
    pub significant: Significant,
    /// What differs from [`Config::retry`].
    pub retry: Retry,
    /// What counts as an outcome.
    pub receipt: Trust,
    /// What an equal call does while the first is unresolved.
    pub duplicates: Duplicates,
    /// The longest answer that is kept for a page that is gone, in bytes; 64 KiB if nothing is said.
    pub keep_response: Option<u32>,
}

/// How long and how often. Nothing stands for the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// How long one exchange may take; 60 s.
    pub attempt_timeout_ms: Option<Millis>,
    /// How long after its first delivery an intent is delivered again by itself; 5 d, and never longer than the
    /// server's contract says.
    pub budget_ms: Option<Millis>,
    /// The first pause; 1 s.
    pub base_delay_ms: Option<Millis>,
    /// The longest pause; 5 min.
    pub max_delay_ms: Option<Millis>,
}

/// What counts as an outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Learned: from the first receipt on receipts are needed; before that a plain status counts where it can mean
    /// but one thing.
    #[default]
    Auto,
    /// Only a receipt.
    Samekey,
    /// The status: a server that takes keys and knows no receipts (Stripe's kind, the IETF draft's).
    Status,
}

/// What an equal call does while the first is unresolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// It joins the first.
    #[default]
    Join,
    /// It is refused.
    Reject,
    /// It is an intent of its own.
    Allow,
}
