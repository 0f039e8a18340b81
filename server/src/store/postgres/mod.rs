//! Records in a PostgreSQL database, for many hosts.
//!
//! The verbs are those of the SQLite store, and so is the rule: load a record, ask core, write what it says if the
//! record still has the revision that was asked about. What one write lock does there is done here by
//! * the unique index, for who made a record;
//! * the lock of a key (`pg_advisory_xact_lock`), held by whoever makes or forgets a record since before it looked:
//!   what a delivery sees of a key that has no record (other names, other actors, where memory begins) still holds
//!   when it commits;
//! * the revision, for everybody who changes a record.
//!
//! All transactions are READ COMMITTED, where each statement sees what was committed before it began. So a lock is
//! taken by one statement and the look is the next.
//!
//! Leases are judged by the database's clock, read after the locks were granted. No clock of a host dates anything.

#![allow(clippy::vec_box, reason = "jobs go from queue to batch and back: pointers do")]

#[cfg(feature = "cli")]
mod actor_kind;
mod cases;
pub(crate) mod claims;
mod database;
mod effects;
mod erase;
pub(crate) mod error;
mod events;
mod heartbeat;
mod import;
mod listen;
mod listing;
mod look;
mod named;
mod open;
mod options;
pub(crate) mod own;
mod passed;
mod pool;
mod queue;
mod row;
mod sample;
pub(crate) mod sql;
mod sweep;
#[cfg(test)]
mod tests;
mod timeline;
mod tls;
mod trail;
mod writer;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use samekey_core::claim::Say;
use samekey_core::problem::Code;
use samekey_core::{Actor, Policy, Timestamp};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::database::Database;
pub use self::import::{Imported, import};
pub use self::options::PostgresOptions;
use self::queue::Job;
use self::timeline::Timeline;
use super::case::Place;
use super::hold::Holds;
use super::hub::Hub;
use super::listing::{Listed, Page, Search};
use super::secret::Secret;
use super::{
    Applied, Ask, Backup, Case, Cases, Change, Effect, EffectEnd, EffectNoted, EffectStart, EffectTold, Erased, Found,
    Look, Policies, Purpose, Queue, RecordId, Sample, Step, StoreError, StoredResponse, Swept, Told,
};
use crate::clock::Clock;

/// The tables of a store, or of an application's own database.
pub(crate) use self::open::TABLES;

/// The open store.
#[derive(Debug)]
pub(super) struct Postgres {
    db: Arc<Database>,
    timeline: Arc<Timeline>,
    capacity: usize,
    /// End when the queue is closed and empty.
    writers: Mutex<Vec<JoinHandle<()>>>,
    /// Have no end of their own.
    others: Vec<JoinHandle<()>>,
}

impl Postgres {
    /// Connects, brings the tables up to date and starts the writers.
    pub(super) async fn open(options: PostgresOptions, holds: Arc<Holds>) -> Result<(Self, Arc<Hub>), StoreError> {
        let birth = open::open(&options).await?;
        open::refuse_unfinished(&options).await?;
        let timeline = Arc::new(Timeline::new(options.clone()));
        timeline.settle().await?;
        let hub = Arc::new(Hub::new(birth.secret));
        let (notices, noticed) = listen::notices();
        let db = Arc::new(Database::new(&options, birth, Arc::clone(&timeline), Arc::clone(&hub), holds, notices)?);
        // The first of them proves that a pool can be had, and shows the database's clock.
        db.look_at_clock().await?;
        db.resume().await?;
        let writers = (0..options.writers.clamp(1, options.connections.max(2) - 1))
            .map(|_| tokio::spawn(writer::run(Arc::clone(&db))))
            .collect();
        let others = vec![
            tokio::spawn(heartbeat::run(Arc::clone(&db))),
            tokio::spawn(listen::run(Arc::clone(&db), options.clone(), noticed)),
        ];
        // Whoever waits from now on hears of other hosts; one that cannot listen yet looks every few seconds.
        let _ = tokio::time::timeout(options.connect_timeout, db.listening.notified()).await;
        let capacity = options.queue_capacity.max(2);
        let writers = Mutex::new(writers);
        Ok((Self { db, timeline, capacity, writers, others }, hub))
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.db.secret
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.db.clock
    }

    /// What the database's clock shows, as far as this process knows without asking.
    pub(super) fn now(&self) -> Timestamp {
        self.db.now()
    }

    pub(super) fn may_judge(&self, lease: Duration) -> bool {
        self.db.may_judge(lease)
    }

    pub(super) fn trusts_times(&self, span: Duration) -> bool {
        self.db.trusts_times(span)
    }

    pub(super) async fn peek(&self, ask: &Ask) -> Result<Option<Told>, StoreError> {
        self.db.read(|link| async move { claims::peek(&link, ask, &self.db).await }).await
    }

    pub(super) async fn find(&self, ask: &Ask) -> Result<Option<Found>, StoreError> {
        self.db.read(move |link| async move { claims::look_up(&*link, ask).await }).await
    }

    pub(super) async fn response(&self, id: RecordId) -> Result<Option<StoredResponse>, StoreError> {
        self.db.read(move |link| async move { row::response(&*link, id).await }).await
    }

    pub(super) async fn by_id(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        self.db.read(move |link| async move { claims::by_id(&link, id).await }).await
    }

    pub(super) async fn case(&self, id: RecordId) -> Result<Option<Case>, StoreError> {
        self.db.read(move |link| async move { cases::by_id(&link, id).await }).await
    }

    /// One chunk of the records that fit, but for hashes.
    pub(super) async fn records(&self, search: Search, before: Option<RecordId>) -> Result<Page, StoreError> {
        let search = &search;
        self.db.read(move |link| async move { listing::chunk(&link, search, before).await }).await
    }

    pub(super) async fn listed(&self, id: RecordId) -> Result<Option<Listed>, StoreError> {
        self.db.read(move |link| async move { listing::by_id(&link, id).await }).await
    }

    /// PostgreSQL's own vacuum does that.
    #[allow(clippy::unused_async, reason = "a verb as the others")]
    pub(super) async fn vacuum(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    pub(super) async fn operations_in_use(
        &self,
        known: Arc<BTreeSet<String>>,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let (now, known) = (self.now(), &*known);
        self.db.read(move |link| async move { named::in_use(&link, known, now).await }).await
    }

    pub(super) async fn effects(&self, id: RecordId) -> Result<Vec<Effect>, StoreError> {
        self.db.read(move |link| async move { effects::of(&link, id).await }).await
    }

    pub(super) async fn trail(&self, id: RecordId) -> Result<Vec<Step>, StoreError> {
        self.db.read(move |link| async move { trail::of(&link, id).await }).await
    }

    pub(super) async fn deliver(&self, ask: Ask) -> Result<Told, StoreError> {
        self.meet(ask, Purpose::Run).await
    }

    pub(super) async fn close_key(&self, ask: Ask) -> Result<Told, StoreError> {
        self.meet(ask, Purpose::Close).await
    }

    async fn meet(&self, ask: Ask, purpose: Purpose) -> Result<Told, StoreError> {
        let queued = self.db.queue.asked_for();
        if queued >= self.capacity {
            let say = Say::Refuse(Code::Overloaded);
            return Ok(Told { say, found: None, response: None, profile: None, now: self.now() });
        }
        let crowded = queued >= self.capacity / 2;
        let meeting = claims::Meeting { ask, purpose, crowded };
        self.ask(|reply| Job::deliver(meeting, reply)).await
    }

    pub(super) async fn apply(&self, change: Change) -> Result<Applied, StoreError> {
        self.ask(|reply| Job::apply(change, reply)).await
    }

    pub(super) async fn start_effect(&self, start: EffectStart, policy: Arc<Policy>) -> Result<EffectTold, StoreError> {
        self.ask(|reply| Job::StartEffect { start: Box::new(start), policy, reply }).await
    }

    pub(super) async fn end_effect(&self, end: EffectEnd) -> Result<EffectNoted, StoreError> {
        self.ask(|reply| Job::EndEffect { end: Box::new(end), reply }).await
    }

    pub(super) async fn lapsed(&self, after: Option<Place>, limit: usize) -> Result<Cases, StoreError> {
        let now = self.now();
        self.db.read(move |link| async move { cases::lapsed(&link, after, now, limit).await }).await
    }

    pub(super) async fn uncertain(&self, after: Option<Place>, limit: usize) -> Result<Cases, StoreError> {
        let now = self.now();
        self.db.read(move |link| async move { cases::uncertain(&link, after, now, limit).await }).await
    }

    pub(super) async fn take_look(&self, look: Look) -> Result<bool, StoreError> {
        self.ask(|reply| Job::Look { look, reply }).await
    }

    pub(super) async fn sweep(&self, policies: Arc<Policies>) -> Result<Swept, StoreError> {
        self.ask(|reply| Job::Sweep { policies, reply }).await
    }

    pub(super) async fn erase(&self, actor: Actor) -> Result<Erased, StoreError> {
        erase::erase(&self.db, &actor).await
    }

    /// Another program does that better.
    #[allow(clippy::unused_async, reason = "a verb as the others")]
    pub(super) async fn backup(&self, _: PathBuf) -> Result<Backup, StoreError> {
        Err(StoreError::misuse("a PostgreSQL store is copied with PostgreSQL's own tools, pg_basebackup or pg_dump"))
    }

    pub(super) async fn set_horizon(
        &self,
        horizon: Timestamp,
        policies: Arc<Policies>,
    ) -> Result<Option<usize>, StoreError> {
        self.timeline.configure(horizon, &policies).await
    }

    pub(super) async fn sample(&self) -> Result<Sample, StoreError> {
        self.db.read(|link| async move { sample::take(&link).await }).await
    }

    pub(super) fn queue(&self) -> Queue {
        Queue { length: self.db.queue.asked_for(), capacity: self.capacity }
    }

    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        self.ask(|reply| Job::Ready { reply }).await
    }

    /// Queues a write and waits for it. Dropping the future does not take the write back.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.db.queue.push(job(reply))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Wakes the heartbeat: there may be something to do sooner than it knew.
    pub(super) fn nudge(&self) {
        self.db.nudged.notify_one();
    }

    /// Writes what is queued and closes the connections.
    pub(super) async fn close(&self) {
        self.db.queue.close();
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        for writer in writers {
            if writer.await.is_err() {
                tracing::error!(store = %self.db.place, "one of the store's writers ended by a panic");
            }
        }
        self.db.notices.told().await;
        for other in &self.others {
            other.abort();
        }
        let db = &self.db;
        if let Err(error) = db.read(|link| async move { passed::keep(&link, db, true).await }).await {
            tracing::debug!(store = %db.place, %error, "the time that passed was not written down");
        }
        self.db.links.close();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.db.queue.close();
        for other in &self.others {
            other.abort();
        }
    }
}
