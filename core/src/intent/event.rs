//! What the shell tells the engine.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::record::StoredRecord;

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// All records of the store: once at the start, and again for every [`Action::Read`](super::Action::Read). Until
    /// the first one, calls wait.
    Loaded {
        /// In any order.
        records: Vec<StoredRecord>,
    },
    /// Who is signed in. Told at the start and whenever the shell learns of it; [`Event::Prepared`] and
    /// [`Submit::account`] tell it, too.
    Account {
        /// `None`: nobody, on purpose.
        account: Option<String>,
    },

    /// The application wants something done.
    Submit(Box<Submit>),
    /// The application waits for the outcome of an intent.
    Wait {
        /// Names the promise.
        call: u32,
        /// The intent.
        id: String,
    },
    /// `resume`: go on now.
    Resume {
        /// Names the promise.
        call: u32,
        /// One intent, or every one that waits for somebody or something.
        id: Option<String>,
        /// `acceptRisk: "may_double"`.
        accept_risk: bool,
    },
    /// `cancel`.
    Cancel {
        /// Names the promise.
        call: u32,
        /// The intent.
        id: String,
    },
    /// `dismiss`.
    Dismiss {
        /// Names the promise.
        call: u32,
        /// The intent.
        id: String,
        /// `acceptRisk: "may_double"`.
        accept_risk: bool,
    },
    /// `signOut`: what is settled of the present account is erased, and what is not is kept or discarded.
    SignOut {
        /// Names the promise.
        call: u32,
        /// Unresolved intents are erased, too.
        discard: bool,
    },
    /// Nobody waits for this call any more (an `AbortSignal`). The intent goes on.
    Aborted {
        /// Names the promise.
        call: u32,
    },

    /// How a [`Write`](super::Action::Write) or an [`Erase`](super::Action::Erase) ended.
    Written {
        /// Names the write.
        write: u32,
        /// How.
        result: Written,
    },
    /// The lock is held, and `headers()` and `account()` have been called, in this order.
    Prepared {
        /// The intent.
        id: String,
        /// Who is signed in.
        account: Option<String>,
    },
    /// Nothing was prepared, and nothing is held.
    NotPrepared {
        /// The intent.
        id: String,
        /// Why.
        why: NotPrepared,
    },
    /// The whole answer of an exchange.
    Answered {
        /// Names the exchange.
        exchange: u32,
        /// The answer.
        answer: Box<Answer>,
    },
    /// An exchange without a whole answer.
    Failed {
        /// Names the exchange.
        exchange: u32,
        /// Why.
        why: Failure,
    },
    /// What `refreshAuth()` said; `false` also where it threw.
    Refreshed {
        /// The intent.
        id: String,
        /// Credentials are new: send again now.
        again: bool,
    },

    /// Another tab or worker wrote a record.
    Told,
    /// The timer rang, the page became visible or came back from the cache: look what is due.
    Tick,
    /// `navigator.onLine`: a hint.
    Online(bool),
}

/// A call of `submit`, `enqueue` or `fetch`.
#[derive(Clone, Debug, Default)]
pub struct Submit {
    /// Names the promise.
    pub call: u32,
    /// What the promise waits for.
    pub until: Until,
    /// Who is signed in.
    pub account: Option<String>,
    /// In upper case.
    pub method: String,
    /// Absolute, as `URL.href` spells it.
    pub url: String,
    /// The operation's name, where the call names one.
    pub operation: Option<String>,
    /// The request's headers in order. `Idempotency-Key` is taken for the key, `Samekey-Slot` and
    /// `Samekey-Operation` for what they say, and none of them is sent as it is.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one; its content type stands in the headers.
    pub body: Option<Vec<u8>>,
    /// `RequestInit.credentials`, given back with every delivery.
    pub credentials: Option<String>,
    /// One form, draft or cart.
    pub slot: Option<String>,
    /// An equal payload on purpose.
    pub another: bool,
    /// The application's own key.
    pub key: Option<String>,
    /// For people.
    pub label: Option<String>,
    /// The application's own, as JSON text; given back as it is.
    pub meta: Option<String>,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// `enqueue`: the intent is durable.
    Durable,
    /// `submit`: it is settled or needs a person.
    #[default]
    Outcome,
    /// `fetch`: the same, or so many milliseconds are over.
    Patience(u32),
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is durable, as far as the store can tell.
    Done,
    /// The stored revision was another one; nothing was written.
    Lost,
    /// The store refused or broke; nothing may have been written.
    Failed,
}

/// Why nothing was prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPrepared {
    /// Somebody else holds the lock.
    Busy,
    /// `headers()` or `account()` threw.
    Threw,
}

/// Why there is no whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `fetch` or reading the body rejected.
    Network,
    /// The exchange took longer than it may.
    Timeout,
    /// `fetch` was not called: no byte can have left.
    NotSent,
}

/// A whole answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// `Response.status`; 0 for a redirect that the browser hides (`type: "opaqueredirect"`).
    pub status: u16,
    /// In order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header; several lines are one with commas, as `Headers.get` gives them.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }
}
