//! What the layer holds at most: request bodies in memory, and requests that wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which bodies are counted; a semaphore cannot count single bytes of large budgets.
const UNIT_BYTES: usize = 1024;

/// Limits over all operations, with why each value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// All request bodies held at once, in bytes. 256 MiB: 32 uploads of the largest size.
    pub max_buffered_bytes: usize,
    /// All requests that wait for another delivery. 10,000: a waiter costs its connection and about 2 KiB.
    pub max_waiters: usize,
    /// Requests that wait for one key. 16: a person clicks, a program that sends more is broken.
    pub waiters_per_key: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_buffered_bytes: 256 << 20, max_waiters: 10_000, waiters_per_key: 16 }
    }
}

/// The budget for request bodies.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// A part of the budget, given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS))))
    }

    /// Grows a reservation to `bytes`; false if the budget is spent.
    pub(crate) fn grow(&self, reserved: &mut Reserved, bytes: usize) -> bool {
        let missing = bytes.div_ceil(UNIT_BYTES).saturating_sub(reserved.bytes.div_ceil(UNIT_BYTES));
        if missing > 0 {
            let Ok(units) = u32::try_from(missing) else { return false };
            let Ok(more) = Arc::clone(&self.0).try_acquire_many_owned(units) else { return false };
            match &mut reserved.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
        reserved.bytes = reserved.bytes.max(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_counts_what_is_held_and_gets_it_back() {
        let budget = Budget::new(10 * UNIT_BYTES);
        let mut one = Reserved::default();
        assert!(budget.grow(&mut one, 1) && budget.grow(&mut one, 4 * UNIT_BYTES));
        let mut two = Reserved::default();
        assert!(!budget.grow(&mut two, 7 * UNIT_BYTES));
        assert!(budget.grow(&mut two, 6 * UNIT_BYTES));
        drop(one);
        assert!(budget.grow(&mut two, 10 * UNIT_BYTES));
    }
}
