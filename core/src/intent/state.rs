//! How an intent stands, and how it is shown.

use alloc::string::String;

use super::record::{Record, Response};

/// The states of an intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Kept, and no byte of it has left.
    #[default]
    Queued,
    /// A delivery is under way.
    Sending,
    /// To be sent again, or asked after.
    Waiting,
    /// Somebody has to sign in.
    NeedsAuth,
    /// The retry budget is spent.
    Stalled,
    /// It may or may not have happened.
    Unknown,
    /// Its key is older than the server's memory.
    Expired,
    /// Settled: it happened.
    Done,
    /// Settled: it was refused or failed.
    Failed,
    /// Settled: another payload was sent under its key or from its slot.
    Conflict,
    /// Settled: it did not and will not happen.
    Cancelled,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 11] = [
        Self::Queued,
        Self::Sending,
        Self::Waiting,
        Self::NeedsAuth,
        Self::Stalled,
        Self::Unknown,
        Self::Expired,
        Self::Done,
        Self::Failed,
        Self::Conflict,
        Self::Cancelled,
    ];

    /// As `IntentState` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Waiting => "waiting",
            Self::NeedsAuth => "needs_auth",
            Self::Stalled => "stalled",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Conflict => "conflict",
            Self::Cancelled => "cancelled",
        }
    }

    /// Nothing will change any more.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Conflict | Self::Cancelled)
    }

    /// Whoever waits for the outcome hears it: settled, or nothing but a person moves it. Signing in is not such a
    /// thing: it happens elsewhere in the application, and the call goes on afterwards.
    pub const fn is_outcome(self) -> bool {
        self.is_settled() || matches!(self, Self::Stalled | Self::Unknown | Self::Expired)
    }

    /// Needs somebody.
    pub const fn needs_somebody(self) -> bool {
        matches!(self, Self::NeedsAuth | Self::Stalled | Self::Unknown | Self::Expired)
    }
}

/// Whether it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It did not.
    No,
    /// It did.
    Yes,
    /// Nobody knows.
    Unknown,
}

impl Effect {
    /// As `Intent.effect` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
            Self::Unknown => "unknown",
        }
    }
}

/// What an intent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitingFor {
    /// To be online.
    Network,
    /// The next try is due later.
    Server,
    /// Another tab or worker delivers it.
    OtherTab,
    /// Somebody to sign in.
    Auth,
}

impl WaitingFor {
    /// As `Intent.waitingFor` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Server => "server",
            Self::OtherTab => "other_tab",
            Self::Auth => "auth",
        }
    }
}

/// An intent as it is shown. [`View::to_json`] has everything but the response's bytes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(super) record: &'a Record,
    pub(super) waiting_for: Option<WaitingFor>,
}

impl<'a> View<'a> {
    /// The intent's id.
    pub fn id(&self) -> &'a str {
        &self.record.id
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.record.state
    }

    /// What it waits for.
    pub fn waiting_for(&self) -> Option<WaitingFor> {
        self.waiting_for
    }

    /// Whether it happened.
    pub fn effect(&self) -> Effect {
        self.record.effect()
    }

    /// Its key, from the first delivery on.
    pub fn key(&self) -> Option<&'a str> {
        self.record.key.as_deref()
    }

    /// A byte of it may have left.
    pub fn maybe_sent(&self) -> bool {
        self.record.maybe_sent()
    }

    /// How often it was sent.
    pub fn deliveries(&self) -> u32 {
        self.record.deliveries
    }

    /// The answer that settled it.
    pub fn response(&self) -> Option<&'a Response> {
        self.record.response.as_ref()
    }

    /// The object that `Intent` declares, but for `response.body`.
    pub fn to_json(&self) -> String {
        super::view::json(self)
    }
}
