//! What the writers, the heartbeat, the listener and the callers of one store share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samekey_core::claim::Record;
use samekey_core::claim::judge::Judge;
use samekey_core::select::{Profile, ProfileId};
use samekey_core::{Policy, Timestamp};
use tokio::sync::Notify;

use super::error::Trouble;
use super::listen::Notices;
use super::open::Birth;
use super::passed::{self, Measured};
use super::pool::{Link, Links, Speak};
use super::queue::Queue;
use super::timeline::Timeline;
use super::{PostgresOptions, claims, error, look, pool, sql};
use crate::clock::Clock;
use crate::store::hold::Holds;
use crate::store::hub::{Hub, Name};
use crate::store::secret::Secret;
use crate::store::sqlite::moved::{self, Moved};
use crate::store::{RecordId, StoreError};

/// A configuration has tens of profiles; more come from many deploys under one process.
const MOST_PROFILES: usize = 1024;

/// Statements that date records.
#[derive(Debug)]
pub(super) struct Dated {
    /// The time alone.
    pub(super) now: String,
    /// With a look at a record.
    pub(super) peek: String,
    /// With what counts where there is no record.
    pub(super) memory: String,
}

#[derive(Debug)]
pub(super) struct Database {
    pub(super) place: Arc<str>,
    /// Of this host; only its monotonic hand is looked at.
    pub(super) clock: Clock,
    pub(super) links: Links,
    pub(super) queue: Queue,
    pub(super) hub: Arc<Hub>,
    pub(super) holds: Arc<Holds>,
    /// There is a claim to renew sooner than the heartbeat knew.
    pub(super) nudged: Notify,
    pub(super) notices: Notices,
    pub(super) dated: Dated,
    pub(super) created_at: Timestamp,
    pub(super) secret: Secret,
    pub(super) statement_timeout: Duration,
    pub(super) lock_timeout: Duration,
    profiles: Mutex<HashMap<ProfileId, Arc<Profile>>>,
    measured: Mutex<Measured>,
    erased: Mutex<Option<[u8; 32]>>,
    seen: Mutex<Seen>,
}

/// What this process saw of the database.
#[derive(Debug)]
struct Seen {
    judge: Judge,
    /// The database's clock when it was last read, and this host's monotonic one.
    read: Option<(Timestamp, Duration)>,
    /// When the database last answered.
    answered: Duration,
    /// It did not answer since.
    failing: bool,
    /// Since when nothing could be written.
    unwritable: Option<Duration>,
}

impl Database {
    pub(super) fn new(
        options: &PostgresOptions,
        birth: Birth,
        timeline: Arc<Timeline>,
        hub: Arc<Hub>,
        holds: Arc<Holds>,
        notices: Notices,
    ) -> Result<Self, StoreError> {
        let clock = sql::clock(options);
        let now = options.clock.monotonic();
        let mut judge = Judge::new();
        // The process may be older than the store's opening: what counts is since when this store could renew.
        judge.stalled(now, Duration::MAX);
        Ok(Self {
            place: options.place(),
            clock: options.clock.clone(),
            links: Links::new(options, timeline)?,
            queue: Queue::default(),
            hub,
            holds,
            nudged: Notify::new(),
            notices,
            dated: Dated {
                now: format!("SELECT {clock}"),
                peek: claims::peek_text(&clock),
                memory: look::memory_text(&clock),
            },
            created_at: birth.created_at,
            secret: Secret::new(&birth.secret),
            statement_timeout: options.statement_timeout,
            lock_timeout: options.lock_timeout,
            profiles: Mutex::default(),
            measured: Mutex::default(),
            erased: Mutex::default(),
            seen: Mutex::new(Seen { judge, read: None, answered: now, failing: false, unwritable: None }),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database said what time it is. Tells the judge how long nobody could ask it, and whether its clock and
    /// this host's monotonic one parted: it was stepped, or another server took over.
    pub(super) fn clock_shows(&self, now: Timestamp) {
        let at = self.clock.monotonic();
        let mut seen = self.seen();
        seen.judge.look(at, now.as_millis());
        if seen.failing {
            let silent = at.saturating_sub(seen.answered);
            seen.judge.stalled(at, silent);
            seen.failing = false;
        }
        if let Some(since) = seen.unwritable {
            seen.judge.stalled(at, at.saturating_sub(since));
        }
        seen.answered = at;
        seen.read = Some((now, at));
    }

    /// A transaction that wrote, begun at this moment, was committed, or was not.
    pub(super) fn wrote(&self, begun: Duration, committed: bool) {
        let at = self.clock.monotonic();
        let mut seen = self.seen();
        let since = *seen.unwritable.get_or_insert(begun);
        if committed {
            seen.unwritable = None;
        }
        seen.judge.stalled(at, at.saturating_sub(since));
    }

    /// The database did not answer.
    pub(super) fn silent(&self) {
        self.seen().failing = true;
    }

    /// What the database's clock shows: what it last showed, and what passed since.
    pub(super) fn now(&self) -> Timestamp {
        let at = self.clock.monotonic();
        match self.seen().read {
            Some((shown, then)) => shown + at.saturating_sub(then),
            None => self.clock.now(),
        }
    }

    pub(super) fn may_judge(&self, lease: Duration) -> bool {
        let at = self.clock.monotonic();
        let seen = self.seen();
        !seen.failing && seen.judge.may_judge(at, lease)
    }

    pub(super) fn trusts_times(&self, span: Duration) -> bool {
        let at = self.clock.monotonic();
        self.seen().judge.trusts_times(at, span)
    }

    pub(super) fn measured(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By when keys are believed: a clock that was set back must not make an old key look like one from the future.
    pub(super) fn latest(&self, now: Timestamp) -> Timestamp {
        now.max(self.measured().measured(self.clock.monotonic()))
    }

    /// How erased actors are called, if somebody was erased, as far as this process knows.
    pub(super) fn erased(&self) -> Option<[u8; 32]> {
        *self.erased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_erased(&self, secret: Option<&[u8]>) {
        let secret = secret.and_then(|secret| secret.try_into().ok());
        *self.erased.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    /// Tells metrics and log what a transaction changed, once it is committed.
    pub(super) fn tell(&self, moved: &[Moved]) {
        moved::tell(moved, |key| self.secret.log_hash("key", key));
    }

    /// By when the sweeper forgets.
    pub(super) fn passed(&self, now: Timestamp) -> Timestamp {
        self.measured().now(now, self.clock.monotonic())
    }

    /// Whether the holder of this record's claim may be called silent. One of this process is not, as long as its
    /// heartbeat stands: it may be late by the database's clock because it waits in the queue behind this question.
    pub(super) fn may_judge_record(&self, policy: &Policy, id: RecordId, record: &Record, now: Timestamp) -> bool {
        let ours = now < record.deadline && self.holds.stands(id, record.fence);
        !ours && self.may_judge(policy.lease)
    }

    /// This very profile stands in the store.
    pub(super) fn has(&self, profile: &Arc<Profile>) -> bool {
        let profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        profiles.get(&profile.id()).is_some_and(|known| Arc::ptr_eq(known, profile) || known == profile)
    }

    pub(super) fn keep(&self, profile: &Arc<Profile>) {
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        if profiles.len() >= MOST_PROFILES {
            profiles.clear();
        }
        profiles.insert(profile.id(), Arc::clone(profile));
    }

    /// These records changed: whoever waits here hears it now, whoever waits on another host in a moment.
    pub(super) fn changed(&self, names: Vec<Name>) {
        if names.is_empty() {
            return;
        }
        self.hub.wake_named(names.iter().copied());
        self.notices.tell(names);
    }

    /// Reads on a connection of the pool, and once more on another one if the first turns out to be dead.
    pub(super) async fn read<T, F>(&self, read: impl Fn(Arc<Link>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut tried = false;
        loop {
            let link = Arc::new(self.link().await?);
            let limit = self.statement_timeout + Duration::from_secs(1);
            match tokio::time::timeout(limit, read(Arc::clone(&link))).await {
                Ok(Ok(value)) => {
                    pool::give_back(link);
                    return Ok(value);
                }
                Ok(Err(Trouble::Postgres(error))) if error::is_connection(&error) && !tried => tried = true,
                Ok(Err(Trouble::Postgres(error))) if error::is_connection(&error) => {
                    self.silent();
                    return Err(error::of(&self.place, &error));
                }
                Ok(Err(trouble)) => {
                    pool::roll_back(link).await;
                    return Err(trouble.into_error(&self.place));
                }
                Err(_) => {
                    self.silent();
                    let why = "no answer in time".into();
                    return Err(StoreError::Unreachable { place: Arc::clone(&self.place), why });
                }
            }
        }
    }

    pub(super) async fn link(&self) -> Result<Link, StoreError> {
        self.links.get().await.inspect_err(|error| {
            if matches!(error, StoreError::Unreachable { .. }) {
                self.silent();
            }
        })
    }

    /// Asks the database what time it is.
    pub(super) async fn look_at_clock(&self) -> Result<(), StoreError> {
        let now = self
            .read(|link| async move { Ok(link.query_one(&self.dated.now, &[]).await?.try_get::<_, i64>(0)?) })
            .await?;
        self.clock_shows(Timestamp::from_millis(now));
        Ok(())
    }

    /// Goes on measuring the time that passes where another process stopped.
    pub(super) async fn resume(&self) -> Result<(), StoreError> {
        let kept = self.read(|link| async move { passed::read(&link, self.created_at).await }).await?;
        let (wall, monotonic) = (self.now(), self.clock.monotonic());
        self.measured().resume(kept, wall, monotonic);
        Ok(())
    }
}
