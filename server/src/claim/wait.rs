//! Waiting for another delivery's claim to end. A waiter never becomes a runner.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use samekey_core::claim::decide::without_running;
use samekey_core::claim::{Event, Say, State};
use samekey_core::problem::Code;
use samekey_core::{Actor, Key};
use tokio::time::{Instant, sleep_until};

use crate::layer::answer;
use crate::problem::Problem;
use crate::store::{Ask, Store, Told};

/// How soon a waiter looks whether a lease that should have lapsed did.
pub(crate) const LOOK_AGAIN_LEAST: Duration = Duration::from_millis(100);
/// A waiter looks at least this often, should a wake-up be lost with its process.
pub(crate) const LOOK_AGAIN_MOST: Duration = Duration::from_secs(5);

/// Waits until the record that `told` speaks of is no longer in progress, and says what a delivery then hears that
/// does not run.
pub(crate) async fn wait(store: &Store, ask: &Ask, mut told: Told, patience: Duration) -> Result<Told, Problem> {
    let until = Instant::now() + patience;
    let mut watch = store.watch(ask);
    loop {
        // Subscribed first, then looked: no change falls between the two.
        match store.peek(ask).await? {
            Some(now) if now.say == Say::Wait => told = now,
            Some(now) => return Ok(now),
            // Something would be written: a lapsed claim is judged, everything else is somebody else's turn.
            None => match store.find(ask).await? {
                Some(found) if found.record.state == State::InProgress => {
                    store.apply(found.id, Arc::clone(&ask.policy), Event::Tick, None).await?;
                    continue;
                }
                found => {
                    let code =
                        found.as_ref().map_or(Code::OperationReleased, |found| without_running(found.record.state));
                    return Ok(Told { say: Say::Refuse(code), found, now: store.now(), ..told });
                }
            },
        }
        let lapses = told.found.as_ref().map_or(Duration::MAX, |found| found.record.lease_until.since(told.now));
        let look_again = Instant::now() + lapses.clamp(LOOK_AGAIN_LEAST, LOOK_AGAIN_MOST);
        tokio::select! {
            () = watch.changed() => {}
            () = sleep_until(look_again) => {}
            () = sleep_until(until) => {
                return Err(answer::refusal(Code::OperationInProgress, &told, &ask.key, &ask.policy));
            }
        }
    }
}

/// Who waits.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRoom {
    max_waiters: usize,
    per_key: usize,
    seats: Arc<Mutex<Seats>>,
}

#[derive(Debug, Default)]
struct Seats {
    all: usize,
    by_key: HashMap<(Actor, Key), usize>,
}

/// A place in the waiting room, free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Mutex<Seats>>,
    key: (Actor, Key),
}

impl WaitingRoom {
    pub(crate) fn new(max_waiters: usize, per_key: usize) -> Self {
        Self { max_waiters, per_key, seats: Arc::default() }
    }

    /// A seat, unless all are taken, or those of this key.
    pub(crate) fn enter(&self, actor: &Actor, key: &Key) -> Option<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (actor.clone(), key.clone());
        let taken = seats.by_key.get(&key).copied().unwrap_or(0);
        if seats.all >= self.max_waiters || taken >= self.per_key {
            return None;
        }
        seats.all += 1;
        seats.by_key.insert(key.clone(), taken + 1);
        Some(Seat { seats: Arc::clone(&self.seats), key })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.all -= 1;
        if let Some(taken) = seats.by_key.get_mut(&self.key) {
            *taken -= 1;
            if *taken == 0 {
                seats.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_limited_by_key_and_in_all() {
        let room = WaitingRoom::new(3, 2);
        let ann = Actor::new("ann");
        let key = |text: &str| text.parse::<Key>().unwrap();
        let first = room.enter(&ann, &key("a")).unwrap();
        let _second = room.enter(&ann, &key("a")).unwrap();
        assert!(room.enter(&ann, &key("a")).is_none(), "two of this key");
        let _other = room.enter(&Actor::new("bob"), &key("a")).unwrap();
        assert!(room.enter(&ann, &key("b")).is_none(), "three in all");
        drop(first);
        assert!(room.enter(&ann, &key("b")).is_some());
        assert_eq!(room.seats.lock().unwrap().by_key.len(), 2, "empty entries are removed");
    }
}
