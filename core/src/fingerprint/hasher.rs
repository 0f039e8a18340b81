use sha2::{Digest, Sha256};

use crate::json::Sink;

/// SHA-256 behind a small buffer: canonical bytes come a few at a time, and the hash prefers blocks.
pub(super) struct Hasher {
    hash: Sha256,
    buffer: [u8; 512],
    filled: usize,
}

impl Hasher {
    pub(super) fn new() -> Self {
        let mut hasher = Self { hash: Sha256::new(), buffer: [0; 512], filled: 0 };
        hasher.put(b"samekey fingerprint 1\0");
        hasher
    }

    /// A part whose length stands in front of it, so that no bytes can move from one part to the next.
    pub(super) fn frame(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }

    /// How many parts follow.
    pub(super) fn count(&mut self, count: usize) {
        self.put(&(count as u64).to_be_bytes());
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        self.hash.update(&self.buffer[..self.filled]);
        self.hash.finalize().into()
    }
}

impl Sink for Hasher {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if let Some(room) = self.buffer.get_mut(self.filled..end) {
            room.copy_from_slice(bytes);
            self.filled = end;
        } else {
            self.hash.update(&self.buffer[..self.filled]);
            self.hash.update(bytes);
            self.filled = 0;
        }
    }
}
