//! An intent in memory, and what is under way for it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::event::{Answer, Failure, Submit};
use super::proof::{Finding, On};
use super::record::{Millis, Pause, Record};

/// A lease outlives the exchange it is for by this much: the time for two writes and a slow page.
pub(super) const GRACE: Millis = 15_000;

/// An intent in memory.
pub(super) struct Held {
    /// As it is stored, or as it would be if the store had not failed.
    pub(super) record: Record,
    pub(super) revision: Option<u64>,
    pub(super) busy: Busy,
    /// What happened since, oldest first.
    pub(super) inbox: Vec<Op>,
    pub(super) attempt: Attempt,
    /// Not before this ends, whatever the record says: a lock was taken, or the store failed.
    pub(super) hold: Option<Pause>,
    /// Due now, whatever the record's pause says.
    pub(super) hurry: bool,
    /// How much longer the lock or lease of somebody else is obeyed, told by looking and not by any clock.
    pub(super) lease_left: Millis,
    /// It could not be stored.
    pub(super) unsaved: bool,
    pub(super) refreshing: bool,
    /// Written while the store was being read: what was read may be older.
    pub(super) fresh: bool,
    /// Nothing is left of it.
    pub(super) dropped: bool,
}

/// Whether the record may be changed now.
pub(super) enum Busy {
    Free,
    /// This is being written for that; nothing: erased.
    Writing(u32, Option<Box<Record>>, Op),
    /// The stored record is another one; it is being read.
    Rereading,
}

/// How far an exchange has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Idle,
    /// Lock, headers and account were asked for.
    Preparing,
    /// The lock is held.
    Locked,
    /// The request is out, and the lock is held.
    Out,
}

/// What happens to one intent.
pub(super) enum Op {
    Create,
    Replace(Box<Submit>),
    Claim,
    Threw,
    Heard(Exchange, Heard),
    Take,
    Save,
    /// The intent before it in the slot will not happen, or did.
    Unblock(bool),
    Resume(Option<u32>, bool),
    Cancel(Option<u32>),
    Dismiss(u32, bool),
    Forget,
    Erase,
}

/// A request that is out.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) number: u32,
    pub(super) about: About,
    pub(super) asked_at: Millis,
}

#[derive(Clone)]
pub(super) enum About {
    Intent(String, On),
    /// The contract of this origin.
    Contract(String),
}

/// What came of an exchange.
pub(super) enum Heard {
    Answer(Box<Answer>, Finding),
    Failure(Failure),
}

/// A promise of `signOut`.
pub(super) struct Farewell {
    pub(super) call: u32,
    pub(super) unresolved: Vec<String>,
    pub(super) open: Vec<String>,
    pub(super) failed: bool,
}

impl Held {
    pub(super) fn new(record: Record, revision: Option<u64>) -> Self {
        Self {
            lease_left: record.retry.attempt_timeout() + GRACE,
            record,
            revision,
            busy: Busy::Free,
            inbox: Vec::new(),
            attempt: Attempt::Idle,
            hold: None,
            hurry: false,
            unsaved: false,
            refreshing: false,
            fresh: false,
            dropped: false,
        }
    }
}
