//! Records in one SQLite file: WAL, `synchronous=FULL`, one writer thread that commits many queued writes in one
//! transaction, and read-only connections beside it.

#[cfg(feature = "cli")]
mod actor_kind;
mod cases;
pub(crate) mod claims;
pub(super) mod copy;
mod effects;
pub(crate) mod erase;
mod horizon;
mod known;
mod leases;
mod listing;
pub(in crate::store) mod moved;
pub(in crate::store) mod named;
mod open;
mod passed;
mod reader;
pub(in crate::store) mod row;
mod sample;
mod space;
mod statement;
pub(in crate::store) mod sweep;
#[cfg(test)]
pub(in crate::store) mod tests;
mod trail;
mod vacuum;
mod wal;
mod writer;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use samekey_core::claim::Say;
use samekey_core::claim::judge::Judge;
use samekey_core::problem::Code;
use samekey_core::{Actor, Policy, Timestamp};
use tokio::sync::oneshot;

use self::reader::Readers;
use self::writer::{Job, Writer};
use super::case::Place;
use super::hold::Holds;
use super::hub::Hub;
use super::listing::{Listed, Page, Search};
use super::secret::Secret;
use super::{
    Applied, Ask, Backup, Case, Cases, Change, Effect, EffectEnd, EffectNoted, EffectStart, EffectTold, Erased, Found,
    Look, Policies, Purpose, Queue, RecordId, Sample, Step, StoreError, StoredResponse, Swept, Told,
};
use crate::clock::{Clock, Moment};

/// The tables of a store, or of an application's own database.
pub(crate) const TABLES: &str = include_str!("migrations/0001_records.sql");

/// How to open a SQLite store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The file; made if it is missing, for its owner only.
    pub path: PathBuf,
    /// The clock.
    pub clock: Clock,
    /// The most writes that wait. New claims are refused when half are waiting, so that completions always fit.
    pub queue_capacity: usize,
    /// New claims are refused when less is free on the file system.
    pub min_free_bytes: u64,
    /// How long another process may hold the write lock.
    pub busy_timeout: Duration,
    /// The most reading connections.
    pub readers: usize,
    /// The folder of a store for tests, deleted with it. Nothing waits for the disk.
    #[cfg(feature = "testing")]
    pub(crate) passing: Option<Arc<tempfile::TempDir>>,
    /// Whether this process looks after the records in the background: one that serves does, one that opens the file
    /// for a single piece of work does not.
    pub attended: bool,
}

impl SqliteOptions {
    /// The defaults for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            clock: Clock::system(),
            // About 0.2 s of work, and a few MiB.
            queue_capacity: 4096,
            // What the largest answers in flight may need, and the WAL.
            min_free_bytes: 256 << 20,
            // Under every client's patience, above any batch of another process.
            busy_timeout: Duration::from_secs(2),
            readers: std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8),
            #[cfg(feature = "testing")]
            passing: None,
            attended: true,
        }
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the most writes that wait.
    #[must_use]
    pub fn queue_capacity(mut self, writes: usize) -> Self {
        self.queue_capacity = writes;
        self
    }

    /// Sets how much must be free for new claims.
    #[must_use]
    pub fn min_free_bytes(mut self, bytes: u64) -> Self {
        self.min_free_bytes = bytes;
        self
    }

    /// Sets how long another process may hold the write lock.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets the most reading connections.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Leaves looking after the records to others.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.attended = false;
        self
    }
}

/// Why one item of a batch failed.
#[derive(Debug)]
enum Trouble {
    /// The transaction may be gone.
    Sqlite(rusqlite::Error),
    /// This item alone; it wrote nothing that another item sees.
    Item(StoreError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// What writer and callers share.
#[derive(Debug)]
struct Shared {
    place: Arc<str>,
    clock: Clock,
    hub: Arc<Hub>,
    holds: Arc<Holds>,
    judge: Mutex<Judge>,
    secret: Secret,
    /// Writes that wait or are being written.
    queued: AtomicUsize,
}

impl Shared {
    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both clocks are looked at first: one that was stepped a moment ago must not judge.
    fn judged<T>(&self, ask: impl FnOnce(&Judge, Duration) -> T) -> T {
        let Moment { wall, monotonic } = self.clock.moment();
        let mut judge = self.judge();
        judge.look(monotonic, wall.as_millis());
        ask(&judge, monotonic)
    }

    fn may_judge(&self, lease: Duration) -> bool {
        self.judged(|judge, at| judge.may_judge(at, lease))
    }
}

/// Reads a store that is there, beside those that use it.
#[cfg(feature = "postgres")]
pub(super) fn reader_of(file: &std::path::Path, patience: Duration) -> Result<Connection, StoreError> {
    open::store_reader(file, &super::error::place(file), patience)
}

/// The secret of the store in this file.
#[cfg(feature = "cli")]
pub(super) fn secret_of(file: &std::path::Path) -> Result<Secret, StoreError> {
    let place = super::error::place(file);
    let conn = open::store_reader(file, &place, super::file::PATIENCE)?;
    let secret = conn.query_row("SELECT value FROM samekey_meta WHERE name = 'secret'", [], |row| row.get(0));
    secret.map(|bytes| Secret::new(&bytes)).map_err(|error| StoreError::sqlite(&place, error))
}

/// Longer answers are read on a thread that may block: their pages are not neighbours.
const READ_NOW_BYTES: usize = 32 << 10;

/// The open store.
#[derive(Debug)]
pub(super) struct Sqlite {
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    capacity: usize,
    jobs: mpsc::Sender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
    #[cfg(feature = "testing")]
    #[cfg_attr(not(test), expect(dead_code, reason = "it is here to be dropped"))]
    passing: Option<Arc<tempfile::TempDir>>,
}

impl Sqlite {
    /// Blocks: opens the file, brings its schema up to date and starts the writer.
    pub(super) fn open(options: SqliteOptions, hub: Arc<Hub>, holds: Arc<Holds>) -> Result<Self, StoreError> {
        let SqliteOptions { path, clock, queue_capacity, min_free_bytes, busy_timeout, readers, .. } = options;
        let place = super::error::place(&path);
        let (conn, birth) = open::writer(&path, busy_timeout, clock.now())?;
        #[cfg(feature = "testing")]
        let passing = options.passing;
        #[cfg(feature = "testing")]
        if passing.is_some() {
            conn.pragma_update(None, "synchronous", "OFF").map_err(|error| StoreError::sqlite(&place, error))?;
        }
        // The folder goes when both threads of the store have closed what they had open.
        #[cfg(feature = "testing")]
        let writers = passing.clone();
        let mut judge = Judge::new();
        // The process may be older than the store's opening: what counts is since when this store could renew.
        judge.stalled(clock.monotonic(), Duration::MAX);
        let shared = Arc::new(Shared {
            place: Arc::clone(&place),
            clock,
            hub,
            holds,
            judge: Mutex::new(judge),
            secret: Secret::new(&birth.secret),
            queued: AtomicUsize::new(0),
        });
        let (jobs, waiting) = mpsc::channel();
        let space = space::Space::of(&path, min_free_bytes);
        let of = |error| StoreError::sqlite(&place, error);
        let passed = passed::Passed::resume(&conn, birth.created_at, shared.clock.moment()).map_err(of)?;
        let mut writer = Writer::new(conn, waiting, Arc::clone(&shared), space, birth.created_at, passed);
        writer.wal = wal::Wal::new(wal::Mover::start(&path));
        let thread = std::thread::Builder::new()
            .name("samekey-writer".into())
            .spawn(move || {
                writer.run();
                #[cfg(feature = "testing")]
                drop(writers);
            })
            .map_err(|error| StoreError::backend(&place, error))?;
        let readers = Arc::new(Readers::new(path, place, busy_timeout, readers));
        let thread = Mutex::new(Some(thread));
        Ok(Self {
            shared,
            readers,
            capacity: queue_capacity.max(2),
            jobs,
            thread,
            #[cfg(feature = "testing")]
            passing,
        })
    }

    /// Where a store for tests is.
    #[cfg(all(test, feature = "testing"))]
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.passing.as_ref().map(|folder| folder.path().to_owned())
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.shared.secret
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    pub(super) fn may_judge(&self, lease: Duration) -> bool {
        self.shared.may_judge(lease)
    }

    pub(super) fn trusts_times(&self, span: Duration) -> bool {
        self.shared.judged(|judge, at| judge.trusts_times(at, span))
    }

    pub(super) async fn peek(&self, ask: &Ask) -> Result<Option<Told>, StoreError> {
        let may_judge = self.may_judge(ask.policy.lease);
        let clock = &self.shared.clock;
        let now = self.readers.read_now(|conn| claims::peek(conn, ask, clock.now(), may_judge, READ_NOW_BYTES))?;
        match now {
            Some(told) => Ok(told),
            None => {
                let (ask, clock) = (ask.clone(), clock.clone());
                let read = move |conn: &Connection| claims::peek(conn, &ask, clock.now(), may_judge, usize::MAX);
                Ok(self.readers.read(read).await?.flatten())
            }
        }
    }

    pub(super) async fn find(&self, ask: &Ask) -> Result<Option<Found>, StoreError> {
        match self.readers.read_now(|conn| claims::look_up(conn, ask, || erase::secret(conn)).map(Some))? {
            Some(found) => Ok(found),
            None => {
                let ask = ask.clone();
                self.readers.read(move |conn| claims::look_up(conn, &ask, || erase::secret(conn))).await
            }
        }
    }

    pub(super) async fn by_id(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        self.readers.read(move |conn| claims::by_id(conn, id)).await
    }

    pub(super) async fn case(&self, id: RecordId) -> Result<Option<Case>, StoreError> {
        self.readers.read(move |conn| cases::by_id(conn, id)).await
    }

    /// One chunk of the records that fit, but for hashes.
    pub(super) async fn records(&self, search: Search, before: Option<RecordId>) -> Result<Page, StoreError> {
        self.readers.read(move |conn| listing::chunk(conn, &search, before)).await
    }

    pub(super) async fn listed(&self, id: RecordId) -> Result<Option<Listed>, StoreError> {
        self.readers.read(move |conn| listing::by_id(conn, id)).await
    }

    pub(super) async fn operations_in_use(
        &self,
        known: Arc<BTreeSet<String>>,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let now = self.shared.clock.now();
        self.readers.read(move |conn| named::in_use(conn, &known, now)).await
    }

    pub(super) async fn response(&self, id: RecordId) -> Result<Option<StoredResponse>, StoreError> {
        Ok(self.readers.read(move |conn| row::response(conn, id, usize::MAX)).await?.flatten())
    }

    pub(super) async fn deliver(&self, ask: Ask) -> Result<Told, StoreError> {
        self.meet(ask, Purpose::Run).await
    }

    pub(super) async fn close_key(&self, ask: Ask) -> Result<Told, StoreError> {
        self.meet(ask, Purpose::Close).await
    }

    async fn meet(&self, ask: Ask, purpose: Purpose) -> Result<Told, StoreError> {
        let queued = self.shared.queued.load(Ordering::Relaxed);
        if queued >= self.capacity {
            let say = Say::Refuse(Code::Overloaded);
            return Ok(Told { say, found: None, response: None, profile: None, now: self.shared.clock.now() });
        }
        let crowded = queued >= self.capacity / 2;
        self.ask(|reply| Job::Deliver { ask: Box::new(ask), purpose, crowded, reply }).await
    }

    pub(super) async fn apply(&self, change: Change) -> Result<Applied, StoreError> {
        self.ask(|reply| Job::Apply { change: Box::new(change), reply }).await
    }

    pub(super) async fn start_effect(&self, start: EffectStart, policy: Arc<Policy>) -> Result<EffectTold, StoreError> {
        self.ask(|reply| Job::StartEffect { start: Box::new(start), policy, reply }).await
    }

    pub(super) async fn end_effect(&self, end: EffectEnd) -> Result<EffectNoted, StoreError> {
        self.ask(|reply| Job::EndEffect { end: Box::new(end), reply }).await
    }

    pub(super) async fn effects(&self, id: RecordId) -> Result<Vec<Effect>, StoreError> {
        self.readers.read(move |conn| effects::of(conn, id)).await
    }

    pub(super) async fn trail(&self, id: RecordId) -> Result<Vec<Step>, StoreError> {
        self.readers.read(move |conn| trail::of(conn, id)).await
    }

    pub(super) async fn lapsed(&self, after: Option<Place>, limit: usize) -> Result<Cases, StoreError> {
        let now = self.shared.clock.now();
        self.readers.read(move |conn| cases::lapsed(conn, after, now, limit)).await
    }

    pub(super) async fn uncertain(&self, after: Option<Place>, limit: usize) -> Result<Cases, StoreError> {
        let now = self.shared.clock.now();
        self.readers.read(move |conn| cases::uncertain(conn, after, now, limit)).await
    }

    pub(super) async fn take_look(&self, look: Look) -> Result<bool, StoreError> {
        self.ask(|reply| Job::Look { look, reply }).await
    }

    pub(super) async fn sweep(&self, policies: Arc<Policies>) -> Result<Swept, StoreError> {
        self.ask(|reply| Job::Sweep { policies, reply }).await
    }

    /// On a connection and a thread of its own: a long walk through the file.
    pub(super) async fn erase(&self, actor: Actor) -> Result<Erased, StoreError> {
        let (path, busy) = (self.readers.path.clone(), self.readers.patience);
        let now = self.shared.clock.now();
        tokio::task::spawn_blocking(move || erase::erase_in(&path, busy, &actor, now))
            .await
            .map_err(|_| StoreError::Closed)?
    }

    pub(super) async fn backup(&self, to: PathBuf) -> Result<Backup, StoreError> {
        let (from, now) = (self.readers.path.clone(), self.shared.clock.now());
        tokio::task::spawn_blocking(move || copy::backup(&from, &to, now)).await.map_err(|_| StoreError::Closed)?
    }

    pub(super) async fn vacuum(&self) -> Result<bool, StoreError> {
        self.ask(|reply| Job::Vacuum { reply }).await
    }

    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        self.ask(|reply| Job::Ready { reply }).await
    }

    pub(super) async fn sample(&self) -> Result<Sample, StoreError> {
        let path = self.readers.path.clone();
        self.readers.read(move |conn| sample::take(conn, &path)).await
    }

    pub(super) fn queue(&self) -> Queue {
        Queue { length: self.shared.queued.load(Ordering::Relaxed), capacity: self.capacity }
    }

    /// Queues a write and waits for it. Dropping the future does not take the write back.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = job(reply);
        if job.is_asked_for() {
            self.shared.queued.fetch_add(1, Ordering::Relaxed);
        }
        self.jobs.send(job).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Wakes the writer, because it is to do something of its own accord sooner than it knew.
    pub(super) fn nudge(&self) {
        // A writer that ended has nothing to do any more.
        let _ = self.jobs.send(Job::Nudge);
    }

    /// Writes what is queued, moves the WAL into the file and ends the writer.
    pub(super) async fn close(&self) {
        self.readers.close();
        let (reply, done) = oneshot::channel();
        if self.jobs.send(Job::Close { reply }).is_ok() {
            // Closed either way: an error is a writer that ended by itself.
            let _ = done.await;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It answered as its last act; joining waits for its connection to close.
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!(store = %self.shared.place, "the store's writer ended by a panic");
            }
        }
    }

    #[cfg(test)]
    fn hook(&self, hook: impl FnOnce(&Connection) + Send + 'static) {
        self.jobs.send(Job::Hook(Box::new(hook))).unwrap();
    }
}
