//! What a handler can do, and what it says of it.

use super::*;
use crate::claim::effects::{self, Begun, Call, CallEnd, Entry, Noted};

/// There is one effect, and each handler calls it once.
const CALL: Call = Call([0; 16]);

impl World {
    /// An effect may come true now, or later without asking anybody.
    pub(super) fn may_act(&self, of: usize, rules: &Rules) -> bool {
        let Some(handler) = self.handlers.get(of) else { return false };
        let begun = !rules.policy.journaled || handler.journal == Journal::Open;
        let alive = matches!(handler.phase, Phase::Running | Phase::Orphan);
        let in_time = handler.until.is_none_or(|until| self.now < until);
        alive && begun && (in_time || rules.broken == Some(Assumption::EffectsEnd))
    }

    pub(super) fn fence(&self, of: usize, phase: Phase) -> Option<Fence> {
        let handler = self.handlers.get(of)?;
        let dropped = handler.until.is_some_and(|until| self.now >= until);
        (handler.phase == phase && !dropped).then_some(handler.fence)
    }

    /// The journal's entry of the one effect that there is, as the counts and the handlers tell it.
    fn entry(&self) -> Option<Entry> {
        let record = self.record.as_ref()?;
        let end = match record.effects {
            Effects { open: 1.., .. } => None,
            Effects { finished: 1.., .. } => Some(CallEnd::Done),
            Effects { not_applied: 1.., .. } => Some(CallEnd::NotApplied),
            Effects { .. } => return None,
        };
        Some(Entry { attempt: record.fence.attempt, call: CALL, input: None, end })
    }

    /// The holder is about to call its effect.
    pub(super) fn begin_effect(&mut self, of: usize, rules: &Rules) -> bool {
        let Some(fence) = self.fence(of, Phase::Running) else { return false };
        let Some(record) = self.record.clone().filter(|_| self.handlers[of].journal == Journal::NotStarted) else {
            return false;
        };
        let entry = self.entry();
        match effects::start(&record, entry.as_ref(), fence, CALL, None, &self.context(rules, true)) {
            Ok(Begun::Go(Some(written))) => {
                self.write(Some(written));
                self.handlers[of].journal = Journal::Open;
                true
            }
            _ => false,
        }
    }

    /// The holder says how its effect ended: done, or not applied.
    pub(super) fn end_effect(&mut self, of: usize) -> bool {
        let Some(fence) = self.fence(of, Phase::Running) else { return false };
        let Some(record) = self.record.clone().filter(|_| self.handlers[of].journal == Journal::Open) else {
            return false;
        };
        let how = if self.handlers[of].acted { CallEnd::Done } else { CallEnd::NotApplied };
        let entry = self.entry();
        match effects::end(&record, entry.as_ref(), fence, how, true) {
            Ok(Noted::Write(written)) => {
                self.write(Some(written));
                self.handlers[of].journal = Journal::Ended;
                true
            }
            _ => false,
        }
    }

    /// A handler ends with an answer that is true, as far as a handler knows.
    pub(super) fn answer(&mut self, of: usize, says: Says, rules: &Rules) -> bool {
        if self.fence(of, Phase::Running).is_none() {
            return false;
        }
        let acted = self.handlers[of].acted;
        let in_journal = self.record.as_ref().is_some_and(|record| record.effects.finished > 0);
        let open = self.handlers[of].journal == Journal::Open;
        let truthful = match says {
            Says::Success => acted || in_journal,
            Says::Refusal => !acted && !open,
            Says::ServerError => !open || rules.policy.journaled,
            Says::Released { .. } => !acted && !open,
        };
        if truthful {
            // With an open effect the handler is over and the effect may still come true.
            self.handlers[of].phase = if open { Phase::Orphan } else { Phase::Answered(says) };
        }
        truthful
    }

    pub(super) fn arrive(&mut self, of: usize, rules: &Rules) -> bool {
        let Some(handler) = self.handlers.get(of) else { return false };
        let Phase::Answered(says) = handler.phase else { return false };
        let finish = match says {
            Says::Success => Finish::Terminal(answer(201)),
            Says::Refusal => Finish::Terminal(answer(404)),
            Says::ServerError => Finish::Terminal(answer(500)),
            Says::Released { wait } => Finish::Released { not_before: wait.then_some(self.now + ms(1)) },
        };
        self.event(&Event::Finish(handler.fence, finish), rules)
    }
}
