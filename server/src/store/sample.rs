//! How many records there are, since when outcomes are uncertain, and how queue and files stand.

use samekey_core::Timestamp;
use samekey_core::claim::State;

/// A look at the whole store that costs the same however much it holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// By the name under which records were made; `""` for all that no configuration named.
    pub(crate) records: Vec<(String, State, u64)>,
    /// From when on the oldest uncertain record of a name may be settled.
    pub(crate) uncertain: Vec<(String, Timestamp)>,
    pub(crate) size_bytes: u64,
}

/// Writes that wait, and how many may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) length: usize,
    pub(crate) capacity: usize,
}
