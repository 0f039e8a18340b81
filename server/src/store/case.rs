//! What somebody has to look at although nobody asks: claims whose holder fell silent, and outcomes nobody knows.

use samekey_core::{Actor, Key, Timestamp};

use super::{Found, RecordId};

/// A record, and all that is needed to ask others about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The record and its name.
    pub found: Found,
    /// It was made under a configured name, not under method and path.
    pub configured: bool,
    /// Whose it is.
    pub actor: Actor,
    /// Its key.
    pub key: Key,
    /// How many looks were taken since it became uncertain.
    pub looks: u32,
}

/// Where a list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// By this, the list is ordered.
    pub(super) due: Timestamp,
    pub(super) id: RecordId,
}

/// A part of a list.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Cases {
    /// In the order in which they are due.
    pub list: Vec<Case>,
    /// Where the list goes on, if it does.
    pub more: Option<Place>,
    /// When the first of those is due that are not due yet.
    pub next: Option<Timestamp>,
}

/// Somebody is about to ask how a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The record.
    pub id: RecordId,
    /// As it was seen.
    pub revision: u64,
    /// As they were counted then.
    pub looks: u32,
    /// Before this moment nobody else asks.
    pub next: Timestamp,
}
