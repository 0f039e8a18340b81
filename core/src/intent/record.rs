//! What is kept of an intent, so that a page that is loaded a week later goes on where the last one stopped.

use alloc::string::String;
use alloc::vec::Vec;

use super::codec;
use super::config::{Retry, Trust};
use super::proof::Cause;
use super::state::{Effect, State};

/// A moment or a time span in milliseconds; moments are Unix time by this device's clock unless it is said otherwise.
pub type Millis = i64;

/// A record as stores hold it: opaque but for what they need to tell records apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The intent's id.
    pub id: String,
    /// Whose it is.
    pub account: Option<String>,
    /// Grows with every write.
    pub revision: u64,
    /// The format of `data`.
    pub format: u32,
    /// The intent, in that format.
    pub data: Vec<u8>,
}

/// The answer that settled an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Headers in order.
    pub headers: Vec<(String, String)>,
    /// The body; nothing where it was too long to keep and the page that heard it is gone.
    pub body: Option<Vec<u8>>,
    /// It came out of the server's store.
    pub replayed: bool,
}

/// What is sent, on every delivery the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) credentials: Option<String>,
}

/// What the next exchange is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// Send the request.
    #[default]
    Deliver,
    /// Ask the status route how the key stands.
    Ask,
    /// Close the key.
    Close,
}

/// A pause that clocks may not stretch: when it ends, and how long it was when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    pub(super) until: Millis,
    pub(super) length: Millis,
}

/// Who delivers, until when at the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) owner: String,
    pub(super) pause: Pause,
}

/// The last thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastError {
    pub(super) cause: Cause,
    /// 0: there was no answer.
    pub(super) status: u16,
    pub(super) request_id: Option<String>,
}

/// Everything about one intent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    // What it is.
    pub(super) id: String,
    pub(super) account: Option<String>,
    pub(super) operation: String,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) slot: Option<String>,
    pub(super) label: Option<String>,
    pub(super) meta: Option<String>,
    /// Equal calls have equal ones.
    pub(super) print: [u8; 32],
    /// Nothing once it is settled.
    pub(super) payload: Payload,

    // What holds for it, whatever the configuration of the page that resumes it says.
    pub(super) trust: Trust,
    pub(super) retry: Retry,
    pub(super) keep_response: u32,

    // How it stands.
    pub(super) state: State,
    pub(super) created_at: Millis,
    pub(super) updated_at: Millis,
    pub(super) key: Option<String>,
    /// When the first byte of the first delivery under this key may have left.
    pub(super) first_sent_at: Option<Millis>,
    /// The newest time of the server that was known before that, by the server's clock.
    pub(super) server_before: Option<Millis>,
    /// How far the server's clock was ahead of this device's when it was heard last.
    pub(super) offset: Option<Millis>,
    /// When the retry budget is spent.
    pub(super) deadline: Option<Millis>,
    pub(super) deliveries: u32,
    /// A delivery was begun, and nothing has been heard of it.
    pub(super) out: bool,
    /// Deliveries under this key of which nobody knows what became.
    pub(super) ambiguous: bool,
    pub(super) failures: u32,
    /// Answers without a receipt where one was due, one after the other.
    pub(super) unreceipted: u32,
    pub(super) step: Step,
    pub(super) pause: Option<Pause>,
    pub(super) lease: Option<Lease>,
    /// Somebody wants it not to happen.
    pub(super) closing: bool,
    /// The intent whose key has to be closed before this one is sent.
    pub(super) after: Option<String>,
    /// A receipt for this operation was seen: its route is covered.
    pub(super) covered: bool,
    /// The browser hid the last answer, a redirect.
    pub(super) hidden: bool,
    /// Sign-ins that were asked for since something else was heard.
    pub(super) refused_auth: u32,
    /// The server took the one who is signed in for somebody else.
    pub(super) other_actor: bool,
    pub(super) minted: u32,
    pub(super) actor: Option<String>,
    pub(super) status_url: Option<String>,
    /// The server's `remember`, once its contract is known.
    pub(super) remember: Option<Millis>,
    pub(super) error: Option<LastError>,

    // How it ended.
    pub(super) effect: Option<Effect>,
    pub(super) settled_at: Option<Millis>,
    /// Somebody has heard the outcome.
    pub(super) taken: bool,
    /// Dismissed: nothing is left of it but that it is over, for tabs that still know it.
    pub(super) forgotten: bool,
    pub(super) response: Option<Response>,
}

impl Record {
    /// A byte of it may have left.
    pub(super) fn maybe_sent(&self) -> bool {
        self.first_sent_at.is_some()
    }

    /// Whether it happened, as far as anybody knows.
    pub(super) fn effect(&self) -> Effect {
        match self.effect {
            Some(effect) => effect,
            None if self.maybe_sent() => Effect::Unknown,
            None => Effect::No,
        }
    }

    /// As the store gets it.
    pub(super) fn stored(&mut self, revision: u64) -> StoredRecord {
        StoredRecord {
            id: self.id.clone(),
            account: self.account.clone(),
            revision,
            format: codec::FORMAT,
            data: codec::write(self),
        }
    }
}
