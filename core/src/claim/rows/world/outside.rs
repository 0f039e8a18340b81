//! Those who settle a record from outside, and the backup.

use super::super::transition::{Probed, Settlement};
use super::*;

impl World {
    pub(super) fn probe(&mut self, rules: &Rules) -> bool {
        let Some(Look { revision, at: asked_at, happened }) = self.look.take() else { return false };
        let verdict = if happened { Probed::Done(answer(201)) } else { Probed::Absent };
        self.event(&Event::Probe { revision, asked_at, verdict }, rules)
    }

    pub(super) fn operator(&mut self, ends: bool, rules: &Rules) -> bool {
        let Some(Look { revision, at: looked_at, happened }) = self.look.take() else { return false };
        let lies = rules.broken == Some(Assumption::Truth);
        let settlement = match (happened && !lies, ends) {
            (true, _) => Settlement::Ended(answer(201)),
            (false, true) => Settlement::Ended(answer(404)),
            (false, false) => Settlement::Released,
        };
        let force = rules.broken == Some(Assumption::OperatorsWait);
        self.event(&Event::Operator { revision, looked_at, force, settlement }, rules)
    }

    pub(super) fn restore(&mut self, rules: &Rules) -> bool {
        let Some(backup) = self.backup.take() else { return false };
        // What people heard since the backup does not bind any more: the price of restoring one.
        let Backup { record, marks, settled, forgotten } = backup;
        (self.settled, self.forgotten, self.restored) = (settled, forgotten, true);
        self.look = None;
        self.marks = Marks { horizon: Some(self.now), ..marks };
        self.record = record;
        // Whoever runs goes on, to be dropped as late as a claim made this moment would be; answers arrive at any time.
        let dropped = self.now + rules.policy.timeout + rules.policy.probe_after();
        for handler in &mut self.handlers {
            handler.until = Some(handler.until.unwrap_or(dropped).min(dropped));
        }
        self.event(&Event::Horizon, rules);
        true
    }
}
