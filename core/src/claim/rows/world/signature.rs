//! Which worlds are alike.

use super::*;

impl World {
    /// All that decides how the world goes on: moments count from now, those long past are alike.
    pub(in super::super) fn signature(&self) -> Vec<u8> {
        let ahead = |moment: Option<Timestamp>| moment.map_or(99, |moment| moment.since(self.now).as_millis() as u8);
        let past =
            |moment: Option<Timestamp>| moment.map_or(99, |moment| self.now.since(moment).as_millis().min(2) as u8);
        let give_up = |moment: Option<Timestamp>| ahead(moment.map(|moment| moment + ms(2)));
        let mut all = alloc::vec![
            self.effects as u8,
            u8::from(self.restored),
            u8::from(self.forgotten),
            ahead(self.minted.map(|minted| minted + ms(2))),
            self.settled.map_or(0, |ended| ended as u8 + 1),
            u8::from(self.minted.is_some_and(|time| time <= self.marks.forgotten_before)),
            ahead(self.marks.horizon.map(|horizon| horizon + ms(4))),
            ahead(self.first_sent.map(|sent| sent + ms(2))),
            u8::from(self.minted <= self.marks.horizon.map(|horizon| horizon + ms(1))),
        ];
        let mut add = |record: Option<&Record>| {
            let Some(record) = record else { return all.push(0) };
            let Effects { open, finished, not_applied } = record.effects;
            all.extend([record.state as u8 + 1, record.ended.map_or(0, |ended| ended as u8 + 1)]);
            all.extend([u8::from(record.took_over), open as u8, finished as u8, not_applied as u8]);
            all.extend([ahead(Some(record.lease_until)), ahead(Some(record.deadline))]);
            all.extend([give_up(record.settle_after), ahead(record.not_before)]);
            all.extend([past(record.finished_at), ahead(record.expires_at)]);
            all.push(record.status_code.map_or(0, |status| (status / 100) as u8));
            for handler in &self.handlers {
                all.push(u8::from(handler.fence == record.fence));
            }
        };
        add(self.record.as_ref());
        if let Some(backup) = &self.backup {
            add(backup.record.as_ref());
            let settled = backup.settled.map_or(0, |ended| ended as u8 + 1);
            let forgets = self.minted.is_some_and(|time| time <= backup.marks.forgotten_before);
            all.extend([settled, u8::from(backup.forgotten), u8::from(forgets)]);
        }
        for Handler { phase, acted, journal, until, .. } in &self.handlers {
            let phase = match phase {
                Phase::Claimed => 0,
                Phase::Running => 1,
                Phase::Orphan => 2,
                Phase::Gone => 3,
                Phase::Answered(Says::Success) => 4,
                Phase::Answered(Says::Refusal) => 5,
                Phase::Answered(Says::ServerError) => 6,
                Phase::Answered(Says::Released { wait: false }) => 7,
                Phase::Answered(Says::Released { wait: true }) => 8,
            };
            all.extend([phase, u8::from(*acted), *journal as u8, ahead(*until)]);
        }
        if let (Some(look), Some(record)) = (self.look, &self.record) {
            let late = record.settle_after.is_some_and(|moment| look.at >= moment);
            all.extend([u8::from(look.revision == record.revision), u8::from(late), u8::from(look.happened)]);
        }
        all
    }
}
