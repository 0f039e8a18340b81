//! The claims that this process holds, and when each is renewed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samekey_core::claim::Fence;

use super::RecordId;

/// One claim of this process and how far a renewal moves its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) id: RecordId,
    pub(super) fence: Fence,
    pub(super) length: Duration,
}

/// When a claim is due that is not to be renewed any more.
const NEVER: Duration = Duration::MAX;

/// A lease is renewed after a third of it, so that two renewals may fail.
fn heartbeat(lease: Duration) -> Duration {
    lease / 3
}

/// One claim's heartbeat, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Beat {
    /// When it is to be renewed.
    due: Duration,
    lease: Duration,
    /// When the last renewal that was acknowledged was asked for; at first, when the claim was.
    proved: Duration,
}

#[derive(Debug, Default)]
struct Held {
    /// By claim.
    due: HashMap<(RecordId, Fence), Beat>,
    /// Not after the first of them: removing one does not move it.
    earliest: Option<Duration>,
}

/// All own claims.
#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<Held>);

impl Holds {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claim; says whether it is the first to be renewed, so that whoever sleeps must wake.
    pub(super) fn add(self: &Arc<Self>, lease: Lease, asked: Duration, now: Duration) -> (Hold, bool) {
        let due = now.saturating_add(heartbeat(lease.length));
        let mut held = self.held();
        held.due.insert((lease.id, lease.fence), Beat { due, lease: lease.length, proved: asked });
        let first = held.earliest.is_none_or(|earliest| due < earliest);
        if first {
            held.earliest = Some(due);
        }
        drop(held);
        (Hold { claim: (lease.id, lease.fence), holds: Arc::clone(self) }, first)
    }

    /// When the next renewal is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.held().earliest
    }

    /// Takes what is due, and what would be due soon after: one statement renews them all.
    pub(super) fn take_due(&self, now: Duration) -> Vec<Lease> {
        let mut held = self.held();
        if held.earliest.is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for ((id, fence), claim) in &mut held.due {
            let beat = heartbeat(claim.lease);
            if claim.due <= now.saturating_add(beat / 4) {
                claim.due = now.saturating_add(beat);
                taken.push(Lease { id: *id, fence: *fence, length: claim.lease });
            }
        }
        held.earliest = held.due.values().map(|claim| claim.due).min();
        taken
    }

    /// These could not be renewed: again in a moment.
    pub(super) fn retry(&self, leases: &[Lease], now: Duration) {
        let mut held = self.held();
        for lease in leases {
            if let Some(claim) = held.due.get_mut(&(lease.id, lease.fence)) {
                let pause = (heartbeat(claim.lease) / 10).clamp(Duration::from_millis(20), Duration::from_secs(1));
                claim.due = now.saturating_add(pause);
            }
        }
        held.earliest = held.due.values().map(|claim| claim.due).min();
    }

    /// Those of these that were not lost stand in the store with a lease that began no earlier than `asked`.
    pub(super) fn prove(&self, leases: &[Lease], asked: Duration) {
        let mut held = self.held();
        for lease in leases {
            if let Some(claim) = held.due.get_mut(&(lease.id, lease.fence)).filter(|claim| claim.due != NEVER) {
                claim.proved = asked;
            }
        }
    }

    /// This claim is held here, and was not lost as far as the last renewal told.
    #[cfg(feature = "postgres")]
    pub(super) fn stands(&self, id: RecordId, fence: Fence) -> bool {
        self.held().due.get(&(id, fence)).is_some_and(|claim| claim.due != NEVER)
    }

    /// When the last acknowledged proof of a claim was asked for; zero where it is not held.
    pub(super) fn proved_at(&self, id: RecordId, fence: Fence) -> Duration {
        self.held().due.get(&(id, fence)).map_or(Duration::ZERO, |claim| claim.proved)
    }

    /// This claim is not ours any more. When it was last proved still bounds what its holder may do.
    pub(super) fn lose(&self, id: RecordId, fence: Fence) {
        if let Some(claim) = self.held().due.get_mut(&(id, fence)) {
            claim.due = NEVER;
        }
    }
}

/// While this lives, the claim's lease is renewed, up to its deadline. Dropping it ends the renewals and nothing
/// else: the record stays as it is.
#[derive(Debug)]
#[must_use = "dropping it ends the renewals"]
pub struct Hold {
    claim: (RecordId, Fence),
    holds: Arc<Holds>,
}

impl Hold {
    /// The claim still stands as far as the last renewal told.
    pub fn stands(&self) -> bool {
        self.holds.held().due.get(&self.claim).is_some_and(|claim| claim.due != NEVER)
    }

    /// When, on the store's monotonic clock, the last acknowledged proof of the claim was asked for.
    pub fn proved_at(&self) -> Duration {
        self.holds.proved_at(self.claim.0, self.claim.1)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.held().due.remove(&self.claim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samekey_core::claim::Holder;

    const fn lease(id: i64, seconds: u64) -> Lease {
        let fence = Fence { attempt: 1, holder: Holder::from_bytes([7; 16]) };
        Lease { id: RecordId(id), fence, length: Duration::from_secs(seconds) }
    }
    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_claim_is_due_after_a_third_of_its_lease() {
        let holds = Arc::new(Holds::default());
        let (one, first) = holds.add(lease(1, 30), s(0), s(0));
        assert!(first);
        let (_two, first) = holds.add(lease(2, 30), s(2), s(2));
        assert!(!first, "whoever sleeps wakes early enough");
        let (_three, first) = holds.add(lease(3, 3), s(2), s(2));
        assert!(first);
        assert_eq!(holds.next_due(), Some(s(3)));
        assert_eq!(holds.take_due(s(2)), []);
        assert_eq!(holds.take_due(s(3)), [lease(3, 3)]);
        holds.lose(lease(3, 3).id, lease(3, 3).fence);
        let mut both = holds.take_due(s(10));
        both.sort_by_key(|lease| lease.id);
        assert_eq!(both, [lease(1, 30), lease(2, 30)], "what is due soon comes along");
        assert_eq!(holds.next_due(), Some(s(20)));
        assert!(one.stands());
        assert_eq!(one.proved_at(), s(0), "asked for is not acknowledged");
        holds.prove(&both, s(10));
        assert_eq!(one.proved_at(), s(10));
        holds.lose(lease(1, 30).id, lease(1, 30).fence);
        holds.prove(&both, s(20));
        assert!(!one.stands());
        assert_eq!(one.proved_at(), s(10), "a renewal that found it lost proves nothing");
    }

    #[test]
    fn what_could_not_be_renewed_is_tried_again_soon() {
        let holds = Arc::new(Holds::default());
        let (hold, _) = holds.add(lease(1, 30), s(0), s(0));
        let taken = holds.take_due(s(10));
        holds.retry(&taken, s(12));
        assert_eq!(holds.next_due(), Some(s(13)));
        drop(hold);
        assert_eq!(holds.take_due(s(13)), []);
        assert_eq!(holds.next_due(), None);
    }
}
