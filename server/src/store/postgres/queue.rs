//! What waits to be written. Completions and the like go before deliveries.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use samekey_core::Policy;
use samekey_core::claim::Record;
use tokio::sync::{Notify, oneshot};

use super::claims::Meeting;
use crate::store::{
    Applied, Change, EffectEnd, EffectNoted, EffectStart, EffectTold, Look, Policies, StoreError, Swept, Told,
};

/// Beyond this, only latency grows.
const MAX_BATCH: usize = 128;

/// Answers of one batch together, so that a statement stays small.
const MAX_BATCH_BYTES: usize = 4 << 20;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writers are asked.
pub(super) enum Job {
    Deliver(Box<Delivery>),
    Apply(Box<Applying>),
    StartEffect { start: Box<EffectStart>, policy: Arc<Policy>, reply: Reply<EffectTold> },
    EndEffect { end: Box<EffectEnd>, reply: Reply<EffectNoted> },
    Look { look: Look, reply: Reply<bool> },
    Sweep { policies: Arc<Policies>, reply: Reply<Swept> },
    Ready { reply: Reply<()> },
}

/// A delivery, or a key to close.
pub(super) struct Delivery {
    pub(super) meeting: Meeting,
    pub(super) asked: Instant,
    pub(super) reply: Reply<Told>,
}

/// An event on its way to its record.
pub(super) struct Applying {
    pub(super) change: Change,
    /// Nobody outside the store waits for it.
    pub(super) own: bool,
    pub(super) asked: Instant,
    /// What was written when the connection was lost under COMMIT: if it stands there, it was committed.
    in_doubt: Mutex<Option<Record>>,
    pub(super) reply: Reply<Applied>,
}

impl Applying {
    pub(super) fn doubt(&self) -> MutexGuard<'_, Option<Record>> {
        self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    pub(super) fn deliver(meeting: Meeting, reply: Reply<Told>) -> Self {
        Self::Deliver(Box::new(Delivery { meeting, asked: Instant::now(), reply }))
    }

    /// An event of the store's own.
    pub(super) fn own(change: Change, reply: Reply<Applied>) -> Self {
        Self::Apply(Box::new(Applying { change, own: true, asked: Instant::now(), in_doubt: Mutex::default(), reply }))
    }

    /// Whether somebody outside the store waits for it. Only such jobs fill the queue.
    fn is_asked_for(&self) -> bool {
        !matches!(self, Self::Sweep { .. } | Self::Look { .. }) && !matches!(self, Self::Apply(event) if event.own)
    }

    pub(super) fn apply(change: Change, reply: Reply<Applied>) -> Self {
        Self::Apply(Box::new(Applying { change, own: false, asked: Instant::now(), in_doubt: Mutex::default(), reply }))
    }
}

/// Jobs of one kind, which one transaction can hold.
pub(super) enum Batch {
    Deliveries(Vec<Box<Delivery>>),
    Events(Vec<Box<Applying>>),
    Alone(Job),
}

#[derive(Default)]
struct Lanes {
    urgent: VecDeque<Job>,
    deliveries: VecDeque<Box<Delivery>>,
    closed: bool,
}

/// The queue of a store.
#[derive(Default)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    more: Notify,
    /// Writes that wait or are being written.
    waiting: AtomicUsize,
    /// Those of them that somebody outside the store waits for.
    asked_for: AtomicUsize,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Queue {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job; whoever answers it takes it from `waiting`.
    pub(super) fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut lanes = self.lanes();
        if lanes.closed {
            return Err(StoreError::Closed);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.asked_for.fetch_add(usize::from(job.is_asked_for()), Ordering::Relaxed);
        match job {
            Job::Deliver(delivery) => lanes.deliveries.push_back(delivery),
            job => lanes.urgent.push_back(job),
        }
        drop(lanes);
        self.more.notify_one();
        Ok(())
    }

    /// Gives back what could not be done yet, before what came later.
    pub(super) fn give_back(&self, deliveries: Vec<Box<Delivery>>, events: Vec<Box<Applying>>) {
        if deliveries.is_empty() && events.is_empty() {
            return;
        }
        let mut lanes = self.lanes();
        for delivery in deliveries.into_iter().rev() {
            lanes.deliveries.push_front(delivery);
        }
        for event in events.into_iter().rev() {
            lanes.urgent.push_front(Job::Apply(event));
        }
        drop(lanes);
        self.more.notify_one();
    }

    /// How full it is.
    pub(super) fn asked_for(&self) -> usize {
        self.asked_for.load(Ordering::Relaxed)
    }

    /// So many were answered, and so many of them had been asked for from outside.
    pub(super) fn answered(&self, jobs: usize, asked_for: usize) {
        self.asked_for.fetch_sub(asked_for, Ordering::Relaxed);
        if self.waiting.fetch_sub(jobs, Ordering::Relaxed) == jobs && self.lanes().closed {
            self.more.notify_one();
        }
    }

    /// Takes no more; what waits is still written.
    pub(super) fn close(&self) {
        self.lanes().closed = true;
        self.more.notify_waiters();
        self.more.notify_one();
    }

    /// The next batch; `None` once the queue is closed and nothing waits or comes back.
    pub(super) async fn next(&self) -> Option<Batch> {
        loop {
            let more = self.more.notified();
            {
                let mut lanes = self.lanes();
                if let Some(batch) = take(&mut lanes) {
                    let left = !lanes.urgent.is_empty() || !lanes.deliveries.is_empty();
                    drop(lanes);
                    if left {
                        self.more.notify_one();
                    }
                    return Some(batch);
                }
                if lanes.closed && self.waiting.load(Ordering::Relaxed) == 0 {
                    drop(lanes);
                    // The other writers end too.
                    self.more.notify_one();
                    return None;
                }
            }
            more.await;
        }
    }
}

fn take(lanes: &mut Lanes) -> Option<Batch> {
    match lanes.urgent.pop_front() {
        None if lanes.deliveries.is_empty() => None,
        None => {
            let most = lanes.deliveries.len().min(MAX_BATCH);
            Some(Batch::Deliveries(lanes.deliveries.drain(..most).collect()))
        }
        Some(Job::Apply(first)) => {
            let size = |event: &Applying| event.change.response.as_ref().map_or(0, |response| response.body.len());
            let mut bytes = size(&first);
            let mut events = vec![first];
            while events.len() < MAX_BATCH
                && let Some(Job::Apply(next)) = lanes.urgent.front()
                && bytes + size(next) <= MAX_BATCH_BYTES
            {
                bytes += size(next);
                if let Some(Job::Apply(next)) = lanes.urgent.pop_front() {
                    events.push(next);
                }
            }
            Some(Batch::Events(events))
        }
        Some(job) => Some(Batch::Alone(job)),
    }
}
