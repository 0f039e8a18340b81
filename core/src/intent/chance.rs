//! Chance from one seed: the same seed, the same keys and pauses.

use sha2::{Digest, Sha256};

use crate::key::Key;
use crate::time::Timestamp;

use super::record::Millis;

/// SHA-256 over seed and counter, which is in the program anyway: fit for keys, and more than enough for pauses.
#[derive(Clone)]
pub(super) struct Chance {
    seed: [u8; 32],
    drawn: u64,
}

impl Chance {
    pub(super) const fn new(seed: [u8; 32]) -> Self {
        Self { seed, drawn: 0 }
    }

    fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(self.drawn.to_be_bytes());
        hash.finalize().into()
    }

    /// A new UUIDv7.
    pub(super) fn key(&mut self, now: Millis) -> Key {
        let [a, b, c, d, e, f, g, h, i, j, ..] = self.draw();
        Key::mint(Timestamp::from_millis(now), [a, b, c, d, e, f, g, h, i, j])
    }

    /// Anything from 0 to `most`, all alike: full jitter.
    pub(super) fn up_to(&mut self, most: Millis) -> Millis {
        let [a, b, c, d, e, f, g, ..] = self.draw();
        let drawn = i64::from_be_bytes([0, a, b, c, d, e, f, g]);
        // 56 bits over a pause of at most some months: no value is favoured to any degree that matters.
        drawn % most.max(0).saturating_add(1)
    }
}
