//! What a store does of its own accord: one background task that attends to a few duties.
//!
//! ```text
//! Store::open ── the keeper's task ─┬─ lapse: claims whose holder fell silent are judged
//!                                   ├─ recover: what is uncertain is asked about, and given up in the end
//!                                   ├─ sweep: what is due expires, what may be forgotten is
//!                                   └─ vacuum: disk space that nothing needs is given back
//! ```
//!
//! A duty does a small piece of work and says when there will be more. Time is the store's clock. An error is logged
//! and the piece tried again; nothing of this ever ends the process. The task holds the store weakly, so that it ends
//! with it.

mod lapse;
mod recover;
mod sweep;
mod vacuum;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock::Clock;
use crate::store::{Store, StoreError, WeakStore};
use lapse::Lapse;
use recover::Recover;
use sweep::Sweep;
use vacuum::Vacuum;

/// How long after an error a duty is tried again: at first, and at most.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Something that is to be done for as long as the store is open.
pub(crate) trait Duty: Send + 'static {
    /// What the log calls it.
    const NAME: &'static str;

    /// Does a piece of it. How long, on the store's clock, until there may be more to do.
    fn attend(&mut self, store: &Store) -> impl Future<Output = Result<Duration, StoreError>> + Send;
}

/// The background task of one store.
#[derive(Debug)]
pub(crate) struct Keeper {
    ended: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    _ends_when_dropped: DropGuard,
}

impl Keeper {
    /// Starts the task; it needs the runtime that this is called in.
    pub(crate) fn start(store: WeakStore, clock: Clock) -> Self {
        let ended = CancellationToken::new();
        let over = ended.clone();
        let task = tokio::spawn(async move {
            // Each duty has a pace of its own; a slow one must not keep the others waiting.
            let duties = async {
                tokio::join!(
                    keep(Lapse, store.clone(), clock.clone()),
                    keep(Recover::default(), store.clone(), clock.clone()),
                    keep(Sweep, store.clone(), clock.clone()),
                    keep(Vacuum, store, clock),
                )
            };
            let _ = over.run_until_cancelled(duties).await;
        });
        Self { _ends_when_dropped: ended.clone().drop_guard(), ended, task: Mutex::new(Some(task)) }
    }

    /// Ends the task, and waits for the end of what it is at.
    pub(crate) async fn end(&self) {
        self.ended.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && let Err(error) = task.await
            && error.is_panic()
        {
            tracing::error!("the store's keeper ended by a panic");
        }
    }
}

/// Attends to one duty until the store is gone or closed.
async fn keep<D: Duty>(mut duty: D, store: WeakStore, clock: Clock) {
    let mut retry = FIRST_RETRY;
    loop {
        let Some(store) = store.upgrade() else { return };
        let pause = match duty.attend(&store).await {
            Ok(pause) => {
                retry = FIRST_RETRY;
                pause
            }
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!(event = "keep", duty = D::NAME, %error, "not done; tried again in {retry:?}");
                let pause = retry;
                retry = LAST_RETRY.min(pause * 2);
                pause
            }
        };
        drop(store);
        clock.sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SqliteOptions;
    use samekey_core::Timestamp;
    use tokio::sync::mpsc;

    /// Says when it was attended to, and fails as often as it is told to.
    struct Told {
        failures: u32,
        at: mpsc::UnboundedSender<Duration>,
    }

    impl Duty for Told {
        const NAME: &'static str = "told";

        async fn attend(&mut self, store: &Store) -> Result<Duration, StoreError> {
            self.at.send(store.clock().monotonic()).unwrap();
            if self.failures > 0 {
                self.failures -= 1;
                return Err(StoreError::misuse("this piece fails"));
            }
            Ok(Duration::from_secs(3600))
        }
    }

    #[tokio::test]
    async fn a_duty_goes_by_the_clock_and_an_error_is_no_end() {
        let directory = tempfile::tempdir().unwrap();
        let (clock, hands) = Clock::manual(Timestamp::from_millis(1_796_000_000_000));
        let path = directory.path().join("samekey.db");
        let store = Store::open(SqliteOptions::new(path).clock(clock.clone()).unattended()).await.unwrap();
        let (at, mut times) = mpsc::unbounded_channel();
        let kept = tokio::spawn(keep(Told { failures: 2, at }, store.downgrade(), clock));
        assert_eq!(times.recv().await, Some(Duration::ZERO), "at once");
        hands.advance(Duration::from_secs(1));
        assert_eq!(times.recv().await, Some(Duration::from_secs(1)), "again a second after the first error");
        hands.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(times.try_recv().is_err(), "longer after the second one");
        hands.advance(Duration::from_secs(1));
        assert_eq!(times.recv().await, Some(Duration::from_secs(3)));
        hands.advance(Duration::from_secs(3599));
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(times.try_recv().is_err(), "not before it said");
        drop(store);
        hands.advance(Duration::from_secs(1));
        kept.await.unwrap();
        assert!(times.try_recv().is_err(), "it ends with its store");
    }
}
