//! The record of one key in one scope, as the stores hold it.

use alloc::string::String;
use core::fmt;

use crate::fingerprint::Fingerprint;
use crate::receipt::{Receipt, Word};
use crate::time::Timestamp;

/// The states of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Claimed; the effect may be running.
    InProgress,
    /// Ended with a 2xx or 3xx.
    Completed,
    /// Ended with a 4xx or 5xx.
    Failed,
    /// Provably nothing happened. The row stays, so that attempts go on and the fingerprint stays bound.
    Released,
    /// The effect may or may not have happened, and nobody alive knows.
    Uncertain,
    /// A tombstone: the response is gone, how it ended is not.
    Expired,
}

/// How a tombstone's command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// With a 2xx or 3xx.
    Completed,
    /// With a 4xx or 5xx.
    Failed,
    /// Closed by its client before it ran.
    Closed,
}

/// Why a record is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Uncertain: the holder fell silent.
    Lapse,
    /// Uncertain: no answer before the deadline.
    Deadline,
    /// Uncertain: the answer's status tells nothing.
    Status,
    /// Uncertain: no answer arrived, or it broke off.
    NoAnswer,
    /// Uncertain: the answer could not be stored.
    NotStored,
    /// Uncertain: nothing happened in this attempt, but an earlier one or an open effect may have.
    EarlierAttempt,
    /// Uncertain: a backup was restored, and absence proves nothing.
    Restore,
    /// Uncertain: the holder says so.
    Holder,
    /// Failed with effect unknown: a 5xx.
    ServerError,
    /// Failed with effect unknown: the handler panicked.
    Panic,
    /// Failed with effect unknown: uncertain for so long that it was given up.
    GaveUp,
}

macro_rules! words {
    ($kind:ident { $($variant:ident = $word:literal,)+ }) => {
        impl $kind {
            /// Every variant.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// As the store's column and the logs spell it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The variant that a word names.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|variant| variant.as_str() == name)
            }
        }
    };
}

words!(State {
    InProgress = "in_progress",
    Completed = "completed",
    Failed = "failed",
    Released = "released",
    Uncertain = "uncertain",
    Expired = "expired",
});
words!(Ended { Completed = "completed", Failed = "failed", Closed = "closed", });
words!(Reason {
    Lapse = "lapse",
    Deadline = "deadline",
    Status = "status",
    NoAnswer = "no_answer",
    NotStored = "not_stored",
    EarlierAttempt = "earlier_attempt",
    Restore = "restore",
    Holder = "holder",
    ServerError = "server_error",
    Panic = "panic",
    GaveUp = "gave_up",
});

impl Reason {
    /// Whether a failed record with this reason may have had its effect.
    pub const fn leaves_effect_unknown(self) -> bool {
        matches!(self, Self::ServerError | Self::Panic | Self::GaveUp)
    }
}

/// The random 128-bit nonce of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holder([u8; 16]);

impl Holder {
    /// A holder from 16 random bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, as the store holds them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holder(…)")
    }
}

/// The fence of every write: the number of a claim on its record, and its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// 1, 2, …; 0 where nothing was ever claimed.
    pub attempt: u32,
    /// Who holds the claim.
    pub holder: Holder,
}

/// The effects journal of a record, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effects {
    /// Started, and nobody said how it ended.
    pub open: u32,
    /// Ended with a result.
    pub finished: u32,
    /// Ended as provably not applied.
    pub not_applied: u32,
}

impl Effects {
    /// No effect was ever started.
    pub const fn none(self) -> bool {
        self.open == 0 && self.finished == 0 && self.not_applied == 0
    }

    /// The open ones closed as not applied.
    pub(super) const fn closed(self) -> Self {
        Self { open: 0, not_applied: self.not_applied.saturating_add(self.open), ..self }
    }
}

/// The record, without scope, key and the response's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the key is bound to; nothing where the key was closed before anything was seen.
    pub fingerprint: Option<Fingerprint>,
    /// The state.
    pub state: State,
    /// The fence of the last claim.
    pub fence: Fence,
    /// The claim took over from one whose outcome is unknown.
    pub took_over: bool,
    /// Bumped by every write.
    pub revision: u64,
    /// Until when the claim stands without a heartbeat.
    pub lease_until: Timestamp,
    /// After which the claim is not renewed.
    pub deadline: Timestamp,
    /// Uncertain: before this moment something may still be under way.
    pub settle_after: Option<Timestamp>,
    /// Released: not to run again before this moment.
    pub not_before: Option<Timestamp>,
    /// Why the record is as it is.
    pub reason: Option<Reason>,
    /// Tombstone: how it ended.
    pub ended: Option<Ended>,
    /// The status of the terminal answer.
    pub status_code: Option<u16>,
    /// The id of what the command made.
    pub result_id: Option<String>,
    /// The response is stored with headers and body.
    pub has_response: bool,
    /// When the record came to be.
    pub created_at: Timestamp,
    /// When it ended or was released.
    pub finished_at: Option<Timestamp>,
    /// Until when the response is replayed.
    pub expires_at: Option<Timestamp>,
    /// The effects journal, counted.
    pub effects: Effects,
}

impl Record {
    /// Whether a failed command may have had its effect all the same.
    pub fn effect_unknown(&self) -> bool {
        self.reason.is_some_and(Reason::leaves_effect_unknown)
    }

    /// What the receipt says of this record. A tombstone says how it ended.
    pub fn receipt(&self) -> Receipt {
        let word = match (self.state, self.ended) {
            (State::InProgress, _) => Word::InProgress,
            (State::Completed, _) | (State::Expired, Some(Ended::Completed)) => Word::Completed,
            (State::Failed, _) | (State::Expired, Some(Ended::Failed)) => Word::Failed,
            (State::Released, _) => Word::Released,
            (State::Uncertain, _) => Word::Uncertain,
            (State::Expired, _) => Word::Refused,
        };
        let attempt = (word != Word::Refused && self.fence.attempt > 0).then_some(self.fence.attempt);
        Receipt { word, effect_unknown: word == Word::Failed && self.effect_unknown(), attempt }
    }
}
