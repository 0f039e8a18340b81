//! Clients: when each minted its key, by which clock, and when it delivers.

use std::fmt;
use std::time::Duration;

use samekey::Key;
use samekey_core::Timestamp;
use support::keys;

use crate::server::BIRTH;
use crate::{DAY, days};

/// When all keys are minted, after the store's creation: late enough for a memory with an end behind it.
const MINTED: Duration = days(70);

/// How far the clocks of clients are off.
const SKEWS: [(bool, Duration); 10] = [
    (false, days(730)),
    (false, days(45)),
    (false, days(29)),
    (false, days(1)),
    (false, Duration::from_secs(3600)),
    (true, Duration::ZERO),
    (true, Duration::from_secs(240)),
    (true, Duration::from_secs(600)),
    (true, Duration::from_secs(3600)),
    (true, days(1)),
];

/// How long commands wait in the client before anything is sent: up to twice the memory.
const QUEUES: [Duration; 8] =
    [Duration::ZERO, DAY, days(9), days(12), days(25), Duration::from_secs(29 * 86_400 + 80_000), days(31), days(60)];

/// When they are delivered again, after the first time.
const RETRIES: [Duration; 7] = [
    Duration::from_secs(60),
    days(4),
    days(8),
    days(11),
    Duration::from_secs(29 * 86_400 + 80_000),
    days(31),
    days(62),
];

/// One command of one client.
pub(crate) struct Caller {
    pub(crate) key: Key,
    /// The time that its key carries, or when it was minted.
    pub(crate) time: Timestamp,
    carries: bool,
    ahead: Duration,
    queue: Duration,
    /// When it came first, in truth.
    pub(crate) first: Option<Timestamp>,
    /// When it ran, in truth.
    pub(crate) runs: Vec<Timestamp>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.carries { "v7" } else { "v4" };
        let of_day = self.time.as_millis() - BIRTH.as_millis();
        write!(f, "a {kind} key of day {:.2}, queued {:?}", of_day as f64 / 86_400_000.0, self.queue)
    }
}

impl Caller {
    /// When it is sent, after the store's creation.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = Duration> + use<> {
        let first = MINTED + self.queue;
        std::iter::once(first).chain(RETRIES.map(move |retry| first + retry))
    }

    pub(crate) fn carries_its_time(&self) -> bool {
        self.carries
    }

    /// Its clock is so far ahead that a right server believes no time of it at first.
    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead > Duration::ZERO
    }
}

/// One for each clock and each queue, and one for each queue whose key has no time.
pub(crate) fn callers() -> Vec<Caller> {
    let mut all = Vec::new();
    let mut number = 0_u64;
    for queue in QUEUES {
        for (ahead, off) in SKEWS {
            let minted = BIRTH + MINTED;
            let time = if ahead { minted + off } else { minted - off };
            number += 1;
            let mut entropy = [0; 10];
            entropy[..8].copy_from_slice(&number.to_be_bytes());
            let ahead = if ahead { off } else { Duration::ZERO };
            let key = Key::mint(time, entropy);
            all.push(Caller { key, time, carries: true, ahead, queue, first: None, runs: Vec::new() });
        }
        let key = keys::v4().parse().expect("a key");
        let (time, ahead) = (BIRTH + MINTED, Duration::ZERO);
        all.push(Caller { key, time, carries: false, ahead, queue, first: None, runs: Vec::new() });
    }
    all
}
