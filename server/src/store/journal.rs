//! What a store keeps beside a record: the effects that its handlers called, and the trail of what happened to it.

use bytes::Bytes;
use samekey_core::Timestamp;
use samekey_core::claim::effects::{Call, CallEnd, Input};
use samekey_core::claim::{Event, Fence, Reason, Record, State};

use super::RecordId;

/// The holder of a claim is about to call an external system.
#[derive(Clone, Debug)]
pub struct EffectStart {
    /// The record.
    pub id: RecordId,
    /// The claim.
    pub fence: Fence,
    /// The effect's name; one entry each.
    pub name: String,
    /// Tells a repeated start from a second call.
    pub call: Call,
    /// What it is called with, where the caller says.
    pub input: Option<Input>,
    /// What the external system gets as its key.
    pub provider_key: String,
}

/// What a start comes to. Written before it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectTold {
    /// Make the call.
    Go,
    /// It was made; this was its result.
    Done(Bytes),
    /// An earlier call may have been applied.
    Unknown,
    /// The name stands for another input.
    OtherInput,
    /// The claim is not this holder's any more.
    Stale(Option<State>),
}

/// The holder of a claim says how a call ended.
#[derive(Clone, Debug)]
pub struct EffectEnd {
    /// The record.
    pub id: RecordId,
    /// The claim.
    pub fence: Fence,
    /// The effect's name.
    pub name: String,
    /// How it ended.
    pub end: CallEnd,
    /// With [`CallEnd::Done`]: what is given to whoever starts it again.
    pub result: Bytes,
}

/// What the end of a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectNoted {
    /// It stands in the journal.
    Kept,
    /// It was not started.
    NotStarted,
    /// The claim is not this holder's any more, or the journal says something else.
    Stale(Option<State>),
}

/// An entry of the journal, for whoever looks at a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effect {
    /// Its name.
    pub name: String,
    /// What the external system got as its key.
    pub provider_key: String,
    /// The attempt that called last.
    pub attempt: u32,
    /// When it was called.
    pub started_at: Timestamp,
    /// When somebody said how it ended.
    pub finished_at: Option<Timestamp>,
    /// How it ended, if anybody said.
    pub end: Option<CallEnd>,
}

/// Who wrote a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A delivery that claimed.
    Delivery,
    /// The holder of the claim.
    Handler,
    /// Nobody: the holder fell silent.
    Lease,
    /// A probe of the external system.
    Probe,
    /// An operator.
    Operator,
    /// Time: retention, memory, giving up.
    Sweeper,
    /// A restored backup, or a replica that took over.
    Restore,
    /// A client that closed its key.
    Client,
}

impl By {
    /// Every variant.
    pub const ALL: &'static [Self] = &[
        Self::Delivery,
        Self::Handler,
        Self::Lease,
        Self::Probe,
        Self::Operator,
        Self::Sweeper,
        Self::Restore,
        Self::Client,
    ];

    /// As the trail and the metrics spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivery => "delivery",
            Self::Handler => "handler",
            Self::Lease => "lease",
            Self::Probe => "probe",
            Self::Operator => "operator",
            Self::Sweeper => "sweeper",
            Self::Restore => "restore",
            Self::Client => "client",
        }
    }

    /// The variant that a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variant| variant.as_str() == name)
    }

    pub(super) fn event(event: &Event) -> Self {
        match event {
            Event::Start(_) | Event::Renew(_) | Event::Finish(..) => Self::Handler,
            Event::Tick => Self::Lease,
            Event::Probe { .. } => Self::Probe,
            Event::Operator { .. } => Self::Operator,
            Event::GiveUp | Event::Sweep { .. } => Self::Sweeper,
            Event::Horizon => Self::Restore,
        }
    }

    /// Who is behind what a delivery, or a client that closes, wrote.
    pub(super) fn delivery(after: &Record) -> Self {
        match (after.state, after.reason) {
            (State::InProgress, _) => Self::Delivery,
            (State::Expired, _) => Self::Client,
            (_, Some(Reason::Restore)) => Self::Restore,
            _ => Self::Lease,
        }
    }
}

/// One step of a record's trail. A first claim and the answer of its holder are not steps: the record tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The revision that it wrote.
    pub revision: u64,
    /// When.
    pub at: Timestamp,
    /// The attempt that it is about.
    pub attempt: u32,
    /// The state from here on.
    pub state: State,
    /// Why.
    pub reason: Option<Reason>,
    /// Who wrote it.
    pub by: By,
    /// The operator's name.
    pub who: Option<String>,
    /// What the operator or the probe found.
    pub why: Option<String>,
    /// The request that made the attempt.
    pub request_id: Option<String>,
}

impl Step {
    /// Whether a write is a step of the trail.
    pub(super) fn is_one(before: Option<&Record>, after: &Record, by: By) -> bool {
        let Some(before) = before else { return after.state != State::InProgress };
        match (by, before.state, after.state) {
            (By::Handler, State::InProgress, State::Completed | State::Failed) | (_, _, State::Expired) => false,
            (_, from, to) => from != to || before.fence != after.fence || before.reason != after.reason,
        }
    }
}

/// Who settles a record, and on what grounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Who.
    pub who: Option<String>,
    /// Why.
    pub why: Option<String>,
}
