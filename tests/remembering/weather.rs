//! What a store lives through: its sweeps, the steps of its clock, its restarts, its backups.

use std::time::Duration;

use crate::{DAY, days};

/// Something that happens, and does not come from a client under test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// The clock is set to be wrong by this; `None`: to be right again.
    Step(Wrong),
    Restart(Duration),
    Backup,
    Restore,
    /// A young key of somebody else, so that the mark has something to move over.
    Traffic,
    Sweep,
    Delivery(usize),
}

impl Happening {
    /// What comes first of what happens at the same moment.
    pub(crate) fn order(self) -> u8 {
        match self {
            Self::Step(_) => 0,
            Self::Restart(_) => 1,
            Self::Backup | Self::Restore => 2,
            Self::Traffic => 3,
            Self::Sweep => 4,
            Self::Delivery(_) => 5,
        }
    }
}

/// How a clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Right,
    Ahead(Duration),
    Behind(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweeping {
    Never,
    Daily,
    /// On the days before and after each step, and at the end.
    Seldom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restarts {
    Never,
    /// For an hour, and once for a long weekend.
    Right,
    /// While the clock is wrong, too.
    Wrong,
}

#[derive(Clone, Debug)]
pub(crate) struct Weather {
    sweeping: Sweeping,
    wrong: Wrong,
    /// From when to when the clock is wrong.
    spell: (Duration, Duration),
    restarts: Restarts,
    restored: bool,
}

/// The last delivery comes before.
const END: Duration = days(195);

const BACKUP: Duration = days(78);
/// What arrived between is lost.
const RESTORE: Duration = days(85);

impl Weather {
    pub(crate) fn is_restored(&self) -> bool {
        self.restored
    }

    pub(crate) fn is_wrong_at(&self, at: Duration) -> bool {
        self.wrong != Wrong::Right && (self.spell.0..=self.spell.1).contains(&at)
    }

    pub(crate) fn restarts_while_wrong(&self) -> bool {
        self.restarts == Restarts::Wrong && self.wrong != Wrong::Right
    }

    /// How much too early a record may seem to have ended: it is dated by the clock of that moment.
    pub(crate) fn wrong_by(&self) -> Duration {
        match self.wrong {
            Wrong::Behind(by) => by.min(crate::REMEMBER),
            Wrong::Right | Wrong::Ahead(_) => {
                if self.restarts_while_wrong() {
                    DAY
                } else {
                    Duration::ZERO
                }
            }
        }
    }

    /// A restart takes its time.
    pub(crate) fn skips_time(&self) -> bool {
        self.restarts != Restarts::Never
    }

    pub(crate) fn happenings(&self) -> Vec<(Duration, Happening)> {
        let mut all: Vec<_> = (0..195).map(|day| (days(day), Happening::Traffic)).collect();
        let (from, to) = self.spell;
        if self.wrong != Wrong::Right {
            all.extend([(from, Happening::Step(self.wrong)), (to, Happening::Step(Wrong::Right))]);
        }
        let hour = Duration::from_secs(3600);
        match self.sweeping {
            Sweeping::Never => {}
            Sweeping::Daily => all.extend((0..195).map(|day| (days(day) + hour * 5, Happening::Sweep))),
            Sweeping::Seldom => {
                let moments = [from - hour, from + hour, to - hour, to + hour, RESTORE + hour, days(140), END];
                all.extend(moments.map(|at| (at, Happening::Sweep)));
            }
        }
        match self.restarts {
            Restarts::Never => {}
            Restarts::Right => all.extend([
                (days(72) + hour, Happening::Restart(hour)),
                (days(100) + hour, Happening::Restart(days(3))),
                (days(130) + hour, Happening::Restart(hour)),
            ]),
            Restarts::Wrong => all.extend([
                (from + hour * 2, Happening::Restart(hour)),
                (from + hour * 4, Happening::Restart(hour)),
                (to - hour * 3, Happening::Restart(hour)),
            ]),
        }
        if self.restored {
            all.extend([(BACKUP, Happening::Backup), (RESTORE, Happening::Restore)]);
        }
        all
    }
}

/// Every mixture.
pub(crate) fn weathers() -> Vec<Weather> {
    let mut all = Vec::new();
    for sweeping in [Sweeping::Never, Sweeping::Daily, Sweeping::Seldom] {
        for (wrong, spell) in [
            (Wrong::Right, (days(90), days(92))),
            (Wrong::Ahead(days(40)), (days(71), days(73))),
            (Wrong::Ahead(days(730)), (days(95), days(110))),
            (Wrong::Behind(days(40)), (days(95), days(96))),
            (Wrong::Behind(days(40)), (days(96), days(140))),
            // Right while the first keys are forgotten, and then before their time.
            (Wrong::Behind(days(40)), (Duration::from_secs(100 * 86_400 + 40_000), days(102))),
            (Wrong::Behind(Duration::from_secs(3600)), (days(69), days(77))),
        ] {
            for restarts in [Restarts::Never, Restarts::Right, Restarts::Wrong] {
                for restored in [false, true] {
                    all.push(Weather { sweeping, wrong, spell, restarts, restored });
                }
            }
        }
    }
    all
}
