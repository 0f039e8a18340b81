//! The effects journal of a record: an external call is made once, or nobody knows whether it was.
//!
//! A handler writes an entry before it calls an external system, in the transaction that proves its claim, and says
//! afterwards how the call ended. Rows are tried in this order, the first match holds.
//!
//! | # | entry | event | guard | new entry | caller hears |
//! |---|---|---|---|---|---|
//! | X1 | any | start | not (in_progress, mine, now < lease_until, now < deadline) | – | `claim_stale` |
//! | X2 | none | start | – | open, of this attempt and call | go |
//! | X3 | any | start | another input | – | error: one name, one input |
//! | X4 | done | start | – | – | its result; it is not called again |
//! | X5 | not applied | start | – | open, of this attempt and call | go |
//! | X6 | open | start | the same attempt and call | – | go (its answer was lost) |
//! | X7 | open, unknown | start | else | – | unknown |
//! | Y1 | any | end | not (in_progress or uncertain, mine) | – | `claim_stale` |
//! | Y2 | none | end | – | – | error: it was not started |
//! | Y3 | any | end | ended the same way, with the same result | – | ok |
//! | Y4 | open, unknown | end done | started by this attempt | done | ok |
//! | Y5 | open, unknown | end not applied | started by this attempt | not applied | ok |
//! | Y6 | open | end unknown | started by this attempt | unknown | ok |
//! | Y7 | any other | end | – | – | `claim_stale`, logged as a contradiction |
//!
//! An entry that is *open* or *unknown* counts as open in [`Effects`]: while one is, the record is neither released
//! nor failed. Each row that writes bumps the revision, so that whoever looked before it must look again.

use super::transition::next;
use super::{Context, Effects, Event, Fence, Record, Refused, State, transition};

/// Tells one call of an effect from another under the same claim: a repeated start is the same call, a second is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call(pub [u8; 16]);

/// A hash of what an effect is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Input(pub [u8; 32]);

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// With a result, a refusal of the external system among them: it is not called again.
    Done,
    /// The external system did nothing and will not: it may be called again.
    NotApplied,
    /// Nobody knows.
    Unknown,
}

impl CallEnd {
    /// Every variant.
    pub const ALL: &'static [Self] = &[Self::Done, Self::NotApplied, Self::Unknown];

    /// As the store's column spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotApplied => "not_applied",
            Self::Unknown => "unknown",
        }
    }

    /// The variant that a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variant| variant.as_str() == name)
    }
}

/// One entry of the journal, without its name and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The attempt that called last.
    pub attempt: u32,
    /// Its call.
    pub call: Call,
    /// What it was called with, where the caller says.
    pub input: Option<Input>,
    /// How the call ended; nothing while nobody said.
    pub end: Option<CallEnd>,
}

/// What a start comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Make the call, once this is written: the record, and the entry open under this call. Nothing where it is
    /// written already.
    Go(Option<Record>),
    /// It is done: its result stands in the journal.
    Done,
    /// An earlier call may have been applied.
    Unknown,
    /// The name stands for another input.
    OtherInput,
}

/// What an end comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// This is to be written: the record, and the entry's end.
    Write(Record),
    /// It stands there already.
    Same,
    /// It was not started.
    NotStarted,
}

/// Rows X1–X7: `fence` is about to call an effect.
pub fn start(
    record: &Record,
    entry: Option<&Entry>,
    fence: Fence,
    call: Call,
    input: Option<Input>,
    context: &Context<'_>,
) -> Result<Begun, Refused> {
    transition(record, &Event::Start(fence), context)?;
    let Effects { open, not_applied, .. } = record.effects;
    let opened = Effects { open: open + 1, ..record.effects };
    Ok(match entry {
        None => Begun::Go(Some(with(record, opened))),
        Some(entry) if entry.input != input => Begun::OtherInput,
        Some(entry) => match entry.end {
            Some(CallEnd::Done) => Begun::Done,
            Some(CallEnd::NotApplied) => {
                Begun::Go(Some(with(record, Effects { not_applied: not_applied.saturating_sub(1), ..opened })))
            }
            None if entry.attempt == fence.attempt && entry.call == call => Begun::Go(None),
            None | Some(CallEnd::Unknown) => Begun::Unknown,
        },
    })
}

/// Rows Y1–Y7: `fence` says how a call ended. `same_result`: what it says is what the entry holds.
pub fn end(
    record: &Record,
    entry: Option<&Entry>,
    fence: Fence,
    end: CallEnd,
    same_result: bool,
) -> Result<Noted, Refused> {
    let stale = Err(Refused::Stale { state: record.state });
    if record.fence != fence || !matches!(record.state, State::InProgress | State::Uncertain) {
        return stale;
    }
    let Some(entry) = entry else { return Ok(Noted::NotStarted) };
    if entry.end == Some(end) && same_result {
        return Ok(Noted::Same);
    }
    if entry.attempt != fence.attempt {
        return stale;
    }
    let Effects { open, finished, not_applied } = record.effects;
    let closed = Effects { open: open.saturating_sub(1), ..record.effects };
    let effects = match (entry.end, end) {
        (None | Some(CallEnd::Unknown), CallEnd::Done) => Effects { finished: finished + 1, ..closed },
        (None | Some(CallEnd::Unknown), CallEnd::NotApplied) => Effects { not_applied: not_applied + 1, ..closed },
        (None, CallEnd::Unknown) => record.effects,
        _ => return stale,
    };
    Ok(Noted::Write(with(record, effects)))
}

fn with(record: &Record, effects: Effects) -> Record {
    Record { effects, ..next(record) }
}
