//! Wakes whoever waits for a record to change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::watch;

/// What a record is called here: a keyed hash of actor and key, so that it may be said to other hosts. Two records
/// of one name wake each other, which costs a look.
pub(super) type Name = u64;

/// Those who wait. A commit looks here after it returned, and a waiter subscribes before it looks at the record: one
/// of the two sees the other.
#[derive(Debug)]
pub(super) struct Hub {
    secret: [u8; 32],
    waiting: Mutex<Waiting>,
}

/// With the number of watches on each.
type Waiting = HashMap<Name, (watch::Sender<()>, usize)>;

impl Hub {
    /// Hubs of one secret give one record the same name.
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self { secret, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the record of an actor and a key is called.
    pub(super) fn name(&self, actor: &str, key: &str) -> Name {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(&(actor.len() as u64).to_be_bytes());
        mac.update(actor.as_bytes());
        mac.update(key.as_bytes());
        let hash: [u8; 32] = mac.finalize().into_bytes().into();
        let [a, b, c, d, e, f, g, h, ..] = hash;
        Name::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Subscribes; says whether nobody waited before.
    pub(super) fn watch(self: &Arc<Self>, actor: &str, key: &str) -> (Watch, bool) {
        let of = self.name(actor, key);
        let mut waiting = self.waiting();
        let first = waiting.is_empty();
        let (sender, watches) = waiting.entry(of).or_insert_with(|| (watch::channel(()).0, 0));
        *watches += 1;
        let changes = sender.subscribe();
        drop(waiting);
        (Watch { of, changes, hub: Arc::clone(self) }, first)
    }

    /// Somebody waits.
    pub(super) fn is_watched(&self) -> bool {
        !self.waiting().is_empty()
    }

    /// These records changed.
    pub(super) fn wake<'a>(&self, changed: impl Iterator<Item = (&'a str, &'a str)>) {
        if self.is_watched() {
            self.wake_named(changed.map(|(actor, key)| self.name(actor, key)));
        }
    }

    /// The records of these names changed.
    pub(super) fn wake_named(&self, changed: impl Iterator<Item = Name>) {
        let waiting = self.waiting();
        for name in changed {
            if let Some((sender, _)) = waiting.get(&name) {
                sender.send_replace(());
            }
        }
    }

    /// Any record may have changed.
    pub(super) fn wake_all(&self) {
        for (sender, _) in self.waiting().values() {
            sender.send_replace(());
        }
    }
}

/// Tells when a record of one actor and key may have changed.
#[derive(Debug)]
pub struct Watch {
    of: Name,
    changes: watch::Receiver<()>,
    hub: Arc<Hub>,
}

impl Watch {
    /// Resolves when a record changed since the watch began, or since this last resolved. Dropping the future
    /// loses nothing.
    pub async fn changed(&mut self) {
        // The sender lives in the hub as long as there is a watch.
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.hub.waiting();
        if let Some((_, watches)) = waiting.get_mut(&self.of) {
            *watches -= 1;
            if *watches == 0 {
                waiting.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn is_woken(watch: &mut Watch) -> bool {
        tokio::time::timeout(Duration::from_millis(20), watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn a_change_between_subscribing_and_waiting_is_not_missed() {
        let hub = Arc::new(Hub::new([7; 32]));
        let (mut watch, first) = hub.watch("ann", "k1");
        assert!(first);
        let (mut other, first) = hub.watch("ann", "k2");
        assert!(!first);
        hub.wake([("ann", "k1")].into_iter());
        assert!(is_woken(&mut watch).await);
        assert!(!is_woken(&mut watch).await, "told once");
        assert!(!is_woken(&mut other).await);
        hub.wake_all();
        assert!(is_woken(&mut watch).await && is_woken(&mut other).await);
    }

    #[tokio::test]
    async fn whoever_left_is_forgotten_and_the_others_stay() {
        let hub = Arc::new(Hub::new([7; 32]));
        let ((mut one, _), (two, _)) = (hub.watch("ann", "k"), hub.watch("ann", "k"));
        drop(two);
        hub.wake([("ann", "k")].into_iter());
        assert!(is_woken(&mut one).await);
        drop(one);
        assert!(!hub.is_watched());
    }
}
