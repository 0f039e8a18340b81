//! What a handler can do, and what it says of it.

use super::*;

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

    pub(super) fn count(&mut self, change: impl FnOnce(&mut Effects)) {
        if let Some(record) = &mut self.record {
            change(&mut record.effects);
        }
    }

    /// The holder says how its effect ended: done, or not applied.
    pub(super) fn end_effect(&mut self, of: usize) -> bool {
        let Some(fence) = self.fence(of, Phase::Running) else { return false };
        let mine = self.record.as_ref().is_some_and(|record| record.fence == fence);
        let handler = &mut self.handlers[of];
        let open = self.record.as_ref().is_some_and(|record| record.effects.open > 0);
        if handler.journal != Journal::Open || !mine || !open {
            return false;
        }
        handler.journal = Journal::Ended;
        let acted = handler.acted;
        self.count(|effects| {
            effects.open -= 1;
            if acted { effects.finished += 1 } else { effects.not_applied += 1 }
        });
        true
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
