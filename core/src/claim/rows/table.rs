//! The table once more, as data: every row is a guard over plain facts, read from the design and not from the code.
//! `every` builds the records and events that these facts describe, and compares.

use super::*;

/// What is true of a record and its operation. Moments are milliseconds from now: zero or less has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub state: Option<State>,
    pub ended: Option<Ended>,
    pub took_over: bool,
    pub effects: Effects,
    pub lease: i64,
    pub deadline: i64,
    /// `settle_after`, `not_before` or `expires_at`, whichever the state has.
    pub moment: Option<i64>,
    pub response: bool,
    /// How long ago it ended.
    pub age: i64,
    pub may_judge: bool,
    pub recovery: Recovery,
    pub journaled: bool,
    pub keeps_timeless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Same,
    Other,
    OtherProfile,
}

/// What is known of a key that has no record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown {
    pub gate: Gate,
    pub before_horizon: bool,
    pub forgotten: bool,
    pub has_time: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// 201 with the id that the completed records below have.
    Succeeded,
    SucceededOtherwise,
    /// 404.
    Refused,
    /// 500, as in the failed records below.
    Broke,
    Released,
    Unknown,
}

impl How {
    fn terminal(self) -> bool {
        !matches!(self, Self::Released | Self::Unknown)
    }
    fn succeeded(self) -> bool {
        matches!(self, Self::Succeeded | Self::SucceededOtherwise)
    }
}

/// How a probe or an operator settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    Refused,
    /// Failed, effect unknown.
    Broke,
    Nothing,
    Unclear,
}

/// What a settlement from outside rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Milliseconds after `settle_after`.
    pub at: i64,
    pub this_revision: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Deliver { payload: Payload, same_holder: bool, unknown: Unknown },
    Close { unknown: Unknown },
    Start { mine: bool },
    Renew { mine: bool },
    Finish { mine: bool, how: How },
    Tick,
    Probe { seen: Seen, verdict: Verdict },
    Operator { seen: Seen, force: bool, verdict: Verdict },
    GiveUp,
    Sweep { key_age: Option<i64>, within_limit: bool },
    Horizon,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum New {
    /// Nothing.
    Same,
    FirstClaim,
    NextClaim {
        took_over: bool,
    },
    LongerLease,
    Ended(State),
    FailedAndEffectsClosed,
    Released,
    ReleasedAndEffectsClosed,
    /// Uncertain for this reason, or the one the holder gave; `settle_after` is kept if it was set.
    Uncertain(Option<Reason>),
    /// Uncertain with a new holder, to be settled when no claim of before the restore can act any more.
    Restored,
    /// The same of a key that the store does not know, with the attempt 0.
    Lost,
    Closed,
    Tombstone,
    Forgotten,
    /// As the recoverer's tick, then by the row of the new state.
    Judged,
}

/// What whoever asked hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hears {
    Runs,
    SameClaim,
    Waits,
    Replay,
    Code(Code),
    AskAgain,
    Closed,
    Ok,
    Stale,
    PresentState,
    /// What the gate says.
    Gate,
}

pub(super) struct Row {
    pub name: &'static str,
    pub guard: fn(&Facts, &What) -> bool,
    pub new: New,
    pub hears: Hears,
}

const fn row(name: &'static str, new: New, hears: Hears, guard: fn(&Facts, &What) -> bool) -> Row {
    Row { name, guard, new, hears }
}

/// The first row whose guard holds.
pub(super) fn row_of(facts: &Facts, what: &What) -> &'static Row {
    TABLE.iter().find(|row| (row.guard)(facts, what)).unwrap_or_else(|| panic!("no row for {facts:?}, {what:?}"))
}

impl Facts {
    fn is(&self, states: &[State]) -> bool {
        self.state.is_some_and(|state| states.contains(&state))
    }
    fn closed(&self) -> bool {
        self.ended == Some(Ended::Closed)
    }
    fn lapsed(&self) -> bool {
        self.is(&[InProgress]) && self.may_judge && (self.lease <= 0 || self.deadline <= 0)
    }
    fn moment_came(&self) -> bool {
        self.moment.is_none_or(|moment| moment <= 0)
    }
    fn open(&self) -> bool {
        self.effects.open > 0
    }
    fn effect_rows(&self) -> bool {
        self.effects != NO_EFFECTS
    }
    fn replayable(&self) -> bool {
        self.is(&[Completed, Failed]) && self.response && !self.moment_came()
    }
    fn reruns(&self) -> bool {
        self.is(&[Uncertain]) && self.recovery == Recovery::Rerun && self.moment_came() && !self.open()
    }
    /// An answer that says what the record says.
    fn ended_so(&self, how: How) -> bool {
        match (self.state, self.ended) {
            (Some(Completed), _) | (Some(Expired), Some(Ended::Completed)) => how == How::Succeeded,
            (Some(Failed), _) | (Some(Expired), Some(Ended::Failed)) => how == How::Broke,
            _ => false,
        }
    }
    fn old(&self) -> bool {
        self.age >= old()
    }
}

impl What {
    fn delivers(&self) -> bool {
        matches!(self, Self::Deliver { .. })
    }
    fn delivers_as(&self, wanted: Payload) -> bool {
        matches!(self, Self::Deliver { payload, .. } if *payload == wanted)
    }
    fn closes(&self) -> bool {
        matches!(self, Self::Close { .. })
    }
    fn unknown(&self) -> Option<Unknown> {
        match self {
            Self::Deliver { unknown, .. } | Self::Close { unknown } => Some(*unknown),
            _ => None,
        }
    }
    fn holders(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::Renew { .. } | Self::Finish { .. })
    }
    fn finishes(&self, wanted: fn(How) -> bool) -> bool {
        matches!(self, Self::Finish { mine: true, how } if wanted(*how))
    }
    /// A probe that counts, with this verdict.
    fn probes(&self, facts: &Facts, wanted: Verdict) -> bool {
        matches!(self, Self::Probe { seen, verdict } if facts.recovery == Recovery::Probe
            && seen.at >= 0 && seen.this_revision && *verdict == wanted)
    }
    /// An operator with this verdict who looked at the present revision.
    fn settles(&self, wanted: Verdict) -> bool {
        matches!(self, Self::Operator { seen, verdict, .. } if seen.this_revision && *verdict == wanted)
    }
    fn saw_late_or_forces(&self) -> bool {
        matches!(self, Self::Operator { seen, force, .. } if seen.at >= 0 || *force)
    }
}

pub(super) fn old() -> i64 {
    i64::try_from(REMEMBER.as_millis()).unwrap()
}
pub(super) fn given_up() -> i64 {
    i64::try_from(GIVE_UP.as_millis()).unwrap()
}

use State::{Completed, Expired, Failed, InProgress, Released, Uncertain};

const fn refuse(code: Code) -> Hears {
    Hears::Code(code)
}

pub(super) const TABLE: &[Row] = &[
    row("D1", New::Same, refuse(Code::KeyClosed), |f, w| w.delivers() && f.closed()),
    row("D2", New::Same, refuse(Code::KeyPayloadMismatch), |f, w| f.state.is_some() && w.delivers_as(Payload::Other)),
    row("D2 asks again", New::Same, Hears::AskAgain, |f, w| f.state.is_some() && w.delivers_as(Payload::OtherProfile)),
    row("D3, C1 gated", New::Same, Hears::Gate, |f, w| {
        f.state.is_none() && w.unknown().is_some_and(|key| key.gate != Gate::Open)
    }),
    row("D4, C1 forgotten", New::Same, refuse(Code::KeyExpired), |f, w| {
        f.state.is_none() && w.unknown().is_some_and(|key| key.has_time && key.forgotten)
    }),
    row("D5", New::Lost, refuse(Code::OutcomeUncertain), |f, w| {
        f.state.is_none() && w.delivers() && w.unknown().is_some_and(|key| key.before_horizon)
    }),
    row("C1 restored", New::Same, refuse(Code::OutcomeUncertain), |f, w| {
        f.state.is_none() && w.closes() && w.unknown().is_some_and(|key| key.before_horizon)
    }),
    row("D6", New::FirstClaim, Hears::Runs, |f, w| f.state.is_none() && w.delivers()),
    row("D9, C3 judged", New::Judged, Hears::Ok, |f, w| f.lapsed() && (w.delivers() || w.closes())),
    row("D7", New::Same, Hears::SameClaim, |f, w| {
        f.is(&[InProgress]) && matches!(w, What::Deliver { same_holder: true, .. })
    }),
    row("D8", New::Same, Hears::Waits, |f, w| f.is(&[InProgress]) && w.delivers()),
    row("D10, C3 replay", New::Same, Hears::Replay, |f, w| f.replayable() && (w.delivers() || w.closes())),
    row("D11, C3 done", New::Same, refuse(Code::ResponseNotStored), |f, w| {
        f.is(&[Completed, Failed, Expired]) && !f.closed() && (w.delivers() || w.closes())
    }),
    row("D12", New::NextClaim { took_over: true }, Hears::Runs, |f, w| f.reruns() && w.delivers()),
    row("D13, C3 uncertain", New::Same, refuse(Code::OutcomeUncertain), |f, w| {
        f.is(&[Uncertain]) && (w.delivers() || w.closes())
    }),
    row("D14", New::Same, refuse(Code::OperationReleased), |f, w| {
        f.is(&[Released]) && w.delivers() && !f.moment_came()
    }),
    row("D15", New::NextClaim { took_over: false }, Hears::Runs, |f, w| f.is(&[Released]) && w.delivers()),
    row("S1", New::Same, Hears::Ok, |f, w| {
        f.is(&[InProgress]) && matches!(w, What::Start { mine: true }) && f.lease > 0 && f.deadline > 0
    }),
    row("S2", New::LongerLease, Hears::Ok, |f, w| {
        f.is(&[InProgress]) && matches!(w, What::Renew { mine: true }) && f.deadline > 0
    }),
    row("F1 completed", New::Ended(Completed), Hears::Ok, |f, w| {
        f.is(&[InProgress, Uncertain, Released]) && w.finishes(How::succeeded)
    }),
    row("F1 failed", New::Ended(Failed), Hears::Ok, |f, w| {
        f.is(&[InProgress, Uncertain, Released]) && w.finishes(How::terminal) && !f.open()
    }),
    row("F2", New::Released, Hears::Ok, |f, w| {
        f.is(&[InProgress, Uncertain]) && w.finishes(|how| how == How::Released) && !f.open() && !f.took_over
    }),
    row("F3", New::Uncertain(Some(Reason::EarlierAttempt)), Hears::Ok, |f, w| {
        f.is(&[InProgress, Uncertain]) && w.finishes(|how| how != How::Unknown)
    }),
    row("F4", New::Same, Hears::Ok, |f, w| f.is(&[Released]) && w.finishes(|how| how == How::Released)),
    row("F5", New::Uncertain(None), Hears::Ok, |f, w| {
        f.is(&[InProgress, Uncertain, Released]) && w.finishes(|how| how == How::Unknown)
    }),
    row("F6", New::Same, Hears::Ok, |f, w| matches!(w, What::Finish { mine: true, how } if f.ended_so(*how))),
    row("F7", New::Same, Hears::Stale, |_, w| w.holders()),
    row("T1", New::Released, Hears::Ok, |f, w| {
        f.lapsed() && matches!(w, What::Tick) && f.journaled && !f.effect_rows() && !f.took_over
    }),
    row("T2", New::Uncertain(Some(Reason::Lapse)), Hears::Ok, |f, w| f.lapsed() && matches!(w, What::Tick)),
    row("P1 completed", New::Ended(Completed), Hears::Ok, |f, w| f.is(&[Uncertain]) && w.probes(f, Verdict::Done)),
    row("P1 failed", New::Ended(Failed), Hears::Ok, |f, w| {
        f.is(&[Uncertain]) && w.probes(f, Verdict::Refused) && !f.open()
    }),
    row("P1 failed, open", New::FailedAndEffectsClosed, Hears::Ok, |f, w| {
        f.is(&[Uncertain]) && w.probes(f, Verdict::Refused)
    }),
    row("P1 unknown", New::Ended(Failed), Hears::Ok, |f, w| f.is(&[Uncertain]) && w.probes(f, Verdict::Broke)),
    row("P2", New::Released, Hears::Ok, |f, w| f.is(&[Uncertain]) && w.probes(f, Verdict::Nothing) && !f.open()),
    row("P3", New::Same, Hears::PresentState, |f, w| f.is(&[Uncertain]) && matches!(w, What::Probe { .. })),
    row("O1 completed", New::Ended(Completed), Hears::Ok, |f, w| f.is(&[Uncertain]) && w.settles(Verdict::Done)),
    row("O1 failed", New::Ended(Failed), Hears::Ok, |f, w| {
        f.is(&[Uncertain]) && w.settles(Verdict::Refused) && !f.open()
    }),
    row("O1 failed, open", New::FailedAndEffectsClosed, Hears::Ok, |f, w| {
        f.is(&[Uncertain]) && w.settles(Verdict::Refused) && w.saw_late_or_forces()
    }),
    row("O1 unknown", New::Ended(Failed), Hears::Ok, |f, w| f.is(&[Uncertain]) && w.settles(Verdict::Broke)),
    row("O2", New::ReleasedAndEffectsClosed, Hears::Ok, |f, w| {
        f.is(&[Uncertain]) && w.settles(Verdict::Nothing) && w.saw_late_or_forces()
    }),
    row("G1", New::Ended(Failed), Hears::Ok, |f, w| {
        f.is(&[Uncertain]) && matches!(w, What::GiveUp) && f.moment.is_some_and(|moment| moment <= -given_up())
    }),
    row("C1", New::Closed, Hears::Closed, |f, w| f.state.is_none() && w.closes()),
    row("C2", New::Closed, Hears::Closed, |f, w| f.is(&[Released]) && w.closes() && !f.effect_rows()),
    row("C3 closed", New::Same, Hears::Closed, |f, w| f.closed() && w.closes()),
    row("C3 in progress", New::Same, refuse(Code::OperationInProgress), |f, w| f.is(&[InProgress]) && w.closes()),
    row("C3 released", New::Same, refuse(Code::OperationReleased), |f, w| f.is(&[Released]) && w.closes()),
    row("E1", New::Tombstone, Hears::Ok, |f, w| {
        f.is(&[Completed, Failed]) && matches!(w, What::Sweep { .. }) && f.moment_came()
    }),
    row("E2 timed", New::Forgotten, Hears::Ok, |f, w| {
        f.is(&[Expired, Released])
            && matches!(w, What::Sweep { key_age: Some(age), within_limit: true } if f.old() && *age >= old())
    }),
    row("E2 timeless", New::Forgotten, Hears::Ok, |f, w| {
        f.is(&[Expired, Released]) && matches!(w, What::Sweep { key_age: None, .. } if f.old()) && !f.keeps_timeless
    }),
    row("H1", New::Restored, Hears::Ok, |f, w| f.is(&[InProgress, Released, Uncertain]) && matches!(w, What::Horizon)),
    row("N1", New::Same, Hears::PresentState, |f, _| f.state.is_some()),
];
