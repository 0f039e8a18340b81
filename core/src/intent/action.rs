//! What the engine wants the shell to do.

use alloc::string::String;
use alloc::vec::Vec;

use super::record::StoredRecord;

/// One thing to do. Actions are begun in their order; none has to be awaited before the next is begun, because the
/// engine asks for what must come later only after it was told that what must come first is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read all records; then [`Event::Loaded`](super::Event::Loaded).
    Read,
    /// Store a record durably; then [`Event::Written`](super::Event::Written).
    Write {
        /// Names the write.
        write: u32,
        /// What is stored.
        record: StoredRecord,
        /// The revision that it replaces; `None`: nothing is there.
        expected: Option<u64>,
    },
    /// Erase a record; then [`Event::Written`](super::Event::Written).
    Erase {
        /// Names the write.
        write: u32,
        /// The record.
        id: String,
        /// The revision that it has.
        expected: u64,
    },
    /// Tell other tabs and workers; they tell their engines by [`Event::Told`](super::Event::Told).
    Tell,
    /// Call `account()`; then [`Event::Account`](super::Event::Account).
    WhoIsIt,

    /// Take the lock of this intent if it is free, then call `headers()`, then `account()`; then
    /// [`Event::Prepared`](super::Event::Prepared) or [`Event::NotPrepared`](super::Event::NotPrepared). The headers
    /// are kept, in memory only, until the [`Action::Fetch`] or the [`Action::Release`] of this intent.
    Prepare {
        /// The intent.
        id: String,
        /// The number of the delivery, for `DeliveryContext`.
        delivery: u32,
        /// Take the lock even from its holder, whose lease has run out: its page is frozen.
        steal: bool,
    },
    /// Send a request; then [`Event::Answered`](super::Event::Answered) or [`Event::Failed`](super::Event::Failed).
    Fetch {
        /// Names the exchange.
        exchange: u32,
        /// The intent whose prepared headers go along; `None`: no headers, no credentials.
        id: Option<String>,
        /// What is sent.
        request: Request,
        /// When to give up, in milliseconds.
        timeout_ms: u32,
    },
    /// Give up the lock of this intent, and forget its headers.
    Release {
        /// The intent.
        id: String,
    },
    /// Call `refreshAuth()`; then [`Event::Refreshed`](super::Event::Refreshed).
    RefreshAuth {
        /// The intent.
        id: String,
        /// The number of the delivery, for `DeliveryContext`.
        delivery: u32,
    },

    /// Resolve a promise of `enqueue`: the intent is durable.
    Accepted {
        /// The promise.
        call: u32,
        /// The intent.
        id: String,
        /// It was there before.
        joined: bool,
    },
    /// Resolve a promise with the outcome of an intent, as [`Engine::view`](super::Engine::view) shows it now.
    Resolved {
        /// The promise.
        call: u32,
        /// The intent.
        id: String,
        /// It was there before.
        joined: bool,
    },
    /// Resolve a promise that has no outcome: `resume`, `dismiss`, `signOut`.
    Done {
        /// The promise.
        call: u32,
        /// `signOut`: what was unresolved, as it was shown last.
        ids: Vec<String>,
    },
    /// Reject a promise.
    Rejected {
        /// The promise.
        call: u32,
        /// Why.
        code: Rejection,
        /// The intent that it is about.
        id: Option<String>,
    },

    /// An intent looks different: fetch its view anew, tell the outbox's subscribers.
    Changed {
        /// The intent.
        id: String,
        /// What kind of change it is.
        turn: Turn,
    },
    /// An intent is not shown any more.
    Gone {
        /// The intent.
        id: String,
    },
    /// Ring after this time at the latest, in place of any timer before.
    Wake {
        /// Fits every timer.
        after_ms: u32,
    },
    /// An entry for the log.
    Log {
        /// Worth the attention of a developer.
        warn: bool,
        /// What for.
        code: &'static str,
        /// The intent that it is about.
        id: Option<String>,
    },
}

/// A request of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Absolute.
    pub url: String,
    /// All headers but those that `headers()` gave; the latter are added where they name no header of these.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// `RequestInit.credentials`.
    pub credentials: Option<String>,
}

/// What kind of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It goes on.
    Moved,
    /// It became settled.
    Settled,
    /// It came to need somebody.
    Attention,
}

/// Why a promise is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Patience is over; the intent goes on.
    Pending,
    /// An equal intent is unresolved, and the operation refuses duplicates.
    Duplicate,
    /// The key is in use for something else.
    Conflict,
    /// The intent was dismissed, or went with its account.
    Closed,
    /// The store did not take it; it was not sent.
    Storage,
    /// A header that would be stored is a credential.
    SecretHeader,
    /// Something that was asked for does not make sense.
    InvalidOption,
}

impl Rejection {
    /// As `SamekeyError.code` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "samekey/pending",
            Self::Duplicate => "samekey/duplicate",
            Self::Conflict => "samekey/conflict",
            Self::Closed => "samekey/closed",
            Self::Storage => "samekey/storage",
            Self::SecretHeader => "samekey/secret_header",
            Self::InvalidOption => "samekey/invalid_option",
        }
    }
}
