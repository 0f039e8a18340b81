//! Commands that look like retries under a new key.
//!
//! A client that makes a new key for each attempt defeats the whole thing, and nothing refuses it: its requests are
//! as good as those of somebody who wants the same twice. So they are only counted and told. Suspicious is a command
//! that runs while the same actor ran the same operation with the same payload under another key a moment ago.
//!
//! Nothing is suspicious where all callers are one actor, or where there is no body: there, equal requests are usual.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use samekey_core::fingerprint::Fingerprint;
use samekey_core::{Actor, Key};

/// The usual timeout of a client and its pause. Whoever wants a second coffee sooner is suspected, too.
const WINDOW: Duration = Duration::from_secs(120);
/// A tenth of a megabyte. Under more commands in a window than this, old ones are written over and some
/// duplicates missed.
const SLOTS: usize = 4096;

/// The last commands, as hashes under a key that lives as long as the process.
#[derive(Debug)]
pub(crate) struct Suspects {
    hashes: RandomState,
    slots: Mutex<Box<[Slot]>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    command: u64,
    key: u64,
    /// On the store's monotonic clock.
    at: Duration,
}

impl Default for Suspects {
    fn default() -> Self {
        Self { hashes: RandomState::new(), slots: Mutex::new(vec![Slot::default(); SLOTS].into()) }
    }
}

impl Suspects {
    /// Notes a command that runs; says how long ago the same one began under another key.
    pub(crate) fn ran(
        &self,
        actor: &Actor,
        operation: &str,
        fingerprint: &Fingerprint,
        key: &Key,
        now: Duration,
    ) -> Option<Duration> {
        // Nought is a slot that nothing was noted in.
        let command = self.hashes.hash_one((actor.stored(), operation, fingerprint)).max(1);
        let key = self.hashes.hash_one(key.expose());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut slots[(command % SLOTS as u64) as usize];
        let before = std::mem::replace(slot, Slot { command, key, at: now });
        let ago = now.saturating_sub(before.at);
        (before.command == command && before.key != key && ago <= WINDOW).then_some(ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samekey_core::fingerprint::{Payload, fingerprint};
    use samekey_core::select::{Profile, Significant};

    fn print(body: &[u8]) -> Fingerprint {
        let profile = Profile::new(None, Significant::default()).unwrap();
        let payload =
            Payload { path_params: &[], query: None, content_type: None, content_encoding: None, headers: &[], body };
        fingerprint(&payload, &profile)
    }

    #[test]
    fn the_same_command_under_another_key_is_suspected_for_a_while() {
        let suspects = Suspects::default();
        let (ann, bob) = (Actor::new("ann"), Actor::new("bob"));
        let key = |text: &str| text.parse::<Key>().unwrap();
        let at = Duration::from_secs;
        let tea = print(b"tea");
        assert_eq!(suspects.ran(&ann, "order", &tea, &key("a"), at(100)), None);
        assert_eq!(suspects.ran(&ann, "order", &tea, &key("a"), at(101)), None, "an attempt under the same key");
        assert_eq!(suspects.ran(&bob, "order", &tea, &key("b"), at(102)), None, "somebody else");
        assert_eq!(suspects.ran(&ann, "other", &tea, &key("c"), at(102)), None, "another operation");
        assert_eq!(suspects.ran(&ann, "order", &print(b"tee"), &key("d"), at(102)), None, "another payload");
        assert_eq!(suspects.ran(&ann, "order", &tea, &key("e"), at(103)), Some(at(2)));
        assert_eq!(suspects.ran(&ann, "order", &tea, &key("f"), at(103) + WINDOW + at(1)), None, "long ago");
    }
}
