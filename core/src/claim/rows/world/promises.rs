//! The promises of the design's section 10, each checked where a step could break it.

use super::*;

impl World {
    /// Promises 1, 3, 4 and 8 at the moment at which a delivery is let through.
    pub(super) fn promise_to_run(&self, payload: Fingerprint, rules: &Rules) -> Result<(), &'static str> {
        if payload != bound() {
            return Err("another payload runs");
        }
        if self.settled.is_some() {
            return Err("it runs again after somebody heard how it ended");
        }
        if self.forgotten {
            return Err("it runs again after it was forgotten");
        }
        if (0..self.handlers.len()).any(|of| self.may_act(of, rules)) {
            return Err("two at once");
        }
        // A finished effect stands in the journal, and is not called again.
        let in_journal = self.record.as_ref().map_or(0, |record| record.effects.finished);
        if rules.policy.recovery != Recovery::Rerun && self.effects > in_journal {
            return Err("it runs although an earlier run had its effect");
        }
        Ok(())
    }

    /// Promise 7: a key is changed only if nothing ran under it, and nothing will.
    pub(super) fn promise_that_nothing_ran(&mut self, rules: &Rules) -> Result<(), &'static str> {
        if self.effects > 0 || (0..self.handlers.len()).any(|of| self.may_act(of, rules)) {
            return Err("expired, yet it ran");
        }
        if self.settled.is_some_and(|earlier| earlier != Ended::Closed) {
            return Err("told two different ends");
        }
        self.settled = Some(Ended::Closed);
        Ok(())
    }

    pub(super) fn hear_the_end(&mut self) -> Result<(), &'static str> {
        let ended = self.record.as_ref().and_then(ended_as).ok_or("told how it ended while it goes on")?;
        if self.settled.is_some_and(|earlier| earlier != ended) {
            return Err("told two different ends");
        }
        self.settled = Some(ended);
        Ok(())
    }

    /// Nobody sends the key any more, or it is new again, as the documentation says of keys without a time.
    pub(super) fn silent(&self, rules: &Rules) -> bool {
        let holds = |assumption| rules.broken != Some(assumption);
        let budget_spent = self.marks.horizon.is_some_and(|horizon| self.now >= horizon + rules.policy.retry_budget);
        let out_of_memory = self.forgotten && rules.key_ahead.is_none();
        let out_of_budget =
            self.record.is_none() && rules.key_ahead.is_none() && budget_spent && holds(Assumption::RetriesEnd);
        out_of_memory || out_of_budget
    }

    /// Promises 1, 2 and 8, wherever the world stands.
    pub(super) fn check(&self, before: Option<&Record>, step: Step, rules: &Rules) -> Result<(), &'static str> {
        if rules.policy.recovery != Recovery::Rerun && self.effects > 1 {
            return Err("two effects");
        }
        let ended = self.record.as_ref().and_then(ended_as);
        if self.settled.is_some() && self.record.is_some() && ended != self.settled {
            return Err("an end that was told did not last");
        }
        let nothing_happened = |record: &Record| match record.state {
            State::Released => true,
            State::Failed => !record.effect_unknown(),
            _ => false,
        };
        if self.record.as_ref().is_some_and(|record| nothing_happened(record) && record.effects.open > 0) {
            return Err("nothing happened, it says, and an effect is open");
        }
        if let (Some(before), Some(after)) = (before, &self.record)
            && step != Step::Restore
        {
            let from_outside = matches!(step, Step::Probe | Step::Operator { .. });
            if from_outside && after.effects.not_applied > before.effects.not_applied {
                let happens = |of: usize| self.handlers[of].acted || self.may_act(of, rules);
                let open = |of: &usize| self.handlers[*of].journal == Journal::Open;
                if (0..self.handlers.len()).filter(open).any(happens) {
                    return Err("an effect is closed as not applied, yet it happens");
                }
            }
            if ended_as(before).is_some() && ended != ended_as(before) {
                return Err("a terminal record changed");
            }
            if after.fence.attempt < before.fence.attempt || after.revision < before.revision {
                return Err("attempt or revision moved back");
            }
            if ended != Some(Ended::Closed) && after.fingerprint != before.fingerprint {
                return Err("bound to another payload");
            }
        }
        Ok(())
    }

    /// Nothing but clock, recoverer and sweeper: sooner or later the key has ended, and then is forgotten.
    pub(in super::super) fn ends_by_itself(&self, rules: &Rules) -> bool {
        let mut world = self.clone();
        for _ in 0..30 {
            if world.record.is_none() {
                return true;
            }
            for step in [Step::Tick, Step::GiveUp, Step::Sweep, Step::Clock] {
                let _ = world.take(step, rules);
            }
        }
        false
    }
}

/// How a record ended, if it has.
pub(super) fn ended_as(record: &Record) -> Option<Ended> {
    match record.state {
        State::Completed => Some(Ended::Completed),
        State::Failed => Some(Ended::Failed),
        State::Expired => record.ended,
        State::InProgress | State::Released | State::Uncertain => None,
    }
}
