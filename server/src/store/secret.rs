//! The secret that a store draws when it is made: what it makes names of that say nothing.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Stays with the store, and goes with its backups. Taken in once: each hash begins from there.
#[derive(Clone)]
pub(crate) struct Secret(Hmac<Sha256>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    pub(super) fn new(bytes: &[u8; 32]) -> Self {
        Self(Hmac::<Sha256>::new_from_slice(bytes).expect("HMAC takes keys of any length"))
    }

    /// HMAC-SHA256 over a purpose and framed parts.
    pub(crate) fn keyed_hash(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// What logs say in place of a key or an actor: enough to find lines that belong together.
    pub(super) fn log_hash(&self, purpose: &str, text: &str) -> String {
        crate::hex(&self.keyed_hash(purpose, &[text.as_bytes()])[..4])
    }
}
