//! What a claim is called by its holder. It says all that a server must know of the claim, so that any server of the
//! store understands it, also after a restart; and the holder's nonce in it is what nobody else can guess.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use samekey_core::claim::{Fence, Holder};

use crate::store::{RecordId, Store};

/// One attempt at one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimId {
    pub(super) record: RecordId,
    pub(super) fence: Fence,
    /// By how much each heartbeat moves the lease.
    pub(super) lease: Duration,
}

const FORM: u8 = 1;
const SEAL_BYTES: usize = 8;
const SEALED_BYTES: usize = 1 + 8 + 4 + 8 + 16;

impl ClaimId {
    pub(super) fn to_text(self, store: &Store) -> String {
        let mut bytes = Vec::with_capacity(SEALED_BYTES + SEAL_BYTES);
        bytes.push(FORM);
        bytes.extend(self.record.0.to_be_bytes());
        bytes.extend(self.fence.attempt.to_be_bytes());
        bytes.extend(u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(self.fence.holder.as_bytes());
        let seal = seal(store, &bytes);
        bytes.extend(seal);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Nothing, if this store gave no such name to anybody.
    pub(super) fn parse(text: &str, store: &Store) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (sealed, seal) = bytes.split_at_checked(SEALED_BYTES)?;
        if !bool::from(subtle::ConstantTimeEq::ct_eq(seal, &self::seal(store, sealed)[..])) {
            return None;
        }
        let (form, rest) = sealed.split_first_chunk::<1>()?;
        let (record, rest) = rest.split_first_chunk()?;
        let (attempt, rest) = rest.split_first_chunk()?;
        let (lease, rest) = rest.split_first_chunk()?;
        let holder = Holder::from_bytes(rest.try_into().ok()?);
        (*form == [FORM]).then_some(Self {
            record: RecordId(i64::from_be_bytes(*record)),
            fence: Fence { attempt: u32::from_be_bytes(*attempt), holder },
            lease: Duration::from_millis(u64::from_be_bytes(*lease)),
        })
    }
}

/// Tells a name that somebody mangled from one that is forgotten, and keeps the lease in it as it was given.
fn seal(store: &Store, bytes: &[u8]) -> [u8; SEAL_BYTES] {
    let hash = store.keyed_hash("claim id", &[bytes]);
    std::array::from_fn(|at| hash[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_says_all_and_no_other_text_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::sqlite(folder.path().join("a.db")).await.unwrap();
        let fence = Fence { attempt: 7, holder: Holder::from_bytes([9; 16]) };
        let id = ClaimId { record: RecordId(4711), fence, lease: Duration::from_millis(120_000) };
        let text = id.to_text(&store);
        assert_eq!(ClaimId::parse(&text, &store), Some(id));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(ClaimId::parse(std::str::from_utf8(&other).unwrap(), &store), None, "{at}");
        }
        for other in ["", "x", &text[1..], &format!("{text}A"), &format!("{text}==")] {
            assert_eq!(ClaimId::parse(other, &store), None, "{other}");
        }
        let elsewhere = Store::sqlite(folder.path().join("b.db")).await.unwrap();
        assert_eq!(ClaimId::parse(&text, &elsewhere), None, "each store has names of its own");
    }
}
