//! Where records live. One seam, few verbs: [`Store::peek`], [`Store::deliver`], [`Store::apply`], [`Store::hold`].
//!
//! A store loads a record, asks [`samekey_core::claim`] what to write and what to say, and writes it in the same
//! transaction if the record still has the revision that was asked about. Nobody is answered before COMMIT returned.

mod asked;
mod backend;
mod case;
#[cfg(test)]
pub(crate) mod conformance;
mod error;
mod file;
mod hold;
mod hub;
mod journal;
mod listing;
mod policies;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod sample;
mod secret;
pub(crate) mod sqlite;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use samekey_core::claim::{Event, Fence};
use samekey_core::{Actor, Key, Policy, Timestamp};

pub use self::asked::{Applied, Ask, Found, StoredResponse, Told};
use self::asked::{Change, Purpose};
pub use self::backend::StoreOptions;
use self::backend::{Backend, on};
pub use self::case::{Case, Cases, Look, Place};
pub use self::error::StoreError;
#[cfg(feature = "cli")]
pub(crate) use self::file::secret_of;
pub use self::file::{Backup, Erased, Restored, backup, erase, restore, restore_at};
pub use self::hold::Hold;
use self::hold::Holds;
use self::hub::Hub;
pub use self::hub::Watch;
pub use self::journal::{By, Effect, EffectEnd, EffectNoted, EffectStart, EffectTold, Note, Step};
pub use self::listing::{Listed, Page, Search};
pub use self::policies::Policies;
#[cfg(feature = "postgres")]
use self::postgres::Postgres;
#[cfg(feature = "postgres")]
pub use self::postgres::{Imported, PostgresOptions, import};
pub(crate) use self::sample::{Queue, Sample};
pub(crate) use self::secret::Secret;
use self::sqlite::Sqlite;
pub use self::sqlite::SqliteOptions;
use crate::claim::{self, WaitingRoom};
use crate::clock::Clock;
use crate::keep::Keeper;
use crate::probe::{Probe, Probes};

/// Names a record for as long as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub i64);

/// A store of records. Clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

impl fmt::Debug for Store {
    /// Not what is in it: its secret is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// A store that whoever holds this does not keep open.
#[derive(Clone, Debug)]
pub(crate) struct WeakStore(Weak<Inner>);

impl WeakStore {
    pub(crate) fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(|inner| Store { inner })
    }
}

/// What one turn of the sweeper came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// So many answers were dropped, because their retention is over.
    pub expired: usize,
    /// So many records are gone.
    pub forgotten: usize,
    /// More is due already.
    pub more: bool,
    /// How long until something is due.
    pub next: Option<Duration>,
}

#[derive(Debug)]
struct Inner {
    backend: Backend,
    hub: Arc<Hub>,
    holds: Arc<Holds>,
    /// Those who wait for claims of the library.
    waiting: WaitingRoom,
    policies: Arc<Policies>,
    probes: Probes,
    /// Not there in a store that is opened for a look or for one piece of work.
    keeper: OnceLock<Keeper>,
    /// What the last look at the store's health said, and when.
    health: tokio::sync::Mutex<Option<(Duration, Result<(), StoreError>)>>,
}

/// How long one look at the store's health is believed, so that probes cost nothing.
const HEALTH_HOLDS: Duration = Duration::from_secs(1);

impl Store {
    /// Opens a SQLite file with the defaults; makes it if it is missing.
    pub async fn sqlite(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open(SqliteOptions::new(path)).await
    }

    /// Opens a PostgreSQL database, by its URL, with the defaults; makes the tables if they are missing.
    #[cfg(feature = "postgres")]
    pub async fn postgres(url: &str) -> Result<Self, StoreError> {
        Self::open(PostgresOptions::new(url)?).await
    }

    /// Opens a store.
    pub async fn open(options: impl Into<StoreOptions>) -> Result<Self, StoreError> {
        match options.into() {
            StoreOptions::Sqlite(options) => {
                let opened = tokio::task::spawn_blocking(move || Self::open_now(options)).await;
                opened.map_err(|_| StoreError::Closed)?
            }
            #[cfg(feature = "postgres")]
            StoreOptions::Postgres(options) => {
                let (attended, policies) = (options.attended, Arc::clone(&options.policies));
                let holds = Arc::new(Holds::default());
                let (backend, hub) = Postgres::open(options, Arc::clone(&holds)).await?;
                Ok(Self::started(Backend::Postgres(Box::new(backend)), hub, holds, policies, attended))
            }
        }
    }

    /// Opens a SQLite file, and blocks.
    pub(crate) fn open_now(options: SqliteOptions) -> Result<Self, StoreError> {
        let mut secret = [0; 32];
        crate::random(&mut secret);
        let (hub, holds) = (Arc::new(Hub::new(secret)), Arc::new(Holds::default()));
        let attended = options.attended;
        let backend = Sqlite::open(options, Arc::clone(&hub), Arc::clone(&holds))?;
        Ok(Self::started(Backend::Sqlite(Box::new(backend)), hub, holds, Arc::default(), attended))
    }

    fn started(backend: Backend, hub: Arc<Hub>, holds: Arc<Holds>, policies: Arc<Policies>, attended: bool) -> Self {
        let health = tokio::sync::Mutex::new(None);
        let (waiting, probes, keeper) = (claim::waiting_room(), Probes::default(), OnceLock::new());
        let store = Self { inner: Arc::new(Inner { backend, hub, holds, waiting, policies, probes, keeper, health }) };
        if attended {
            store.inner.keeper.get_or_init(|| Keeper::start(store.downgrade(), store.clock().clone()));
        }
        store
    }

    /// Gives some disk space back, if there is more than the store will soon need; says whether there is still more.
    pub(crate) async fn vacuum(&self) -> Result<bool, StoreError> {
        on!(self, backend => backend.vacuum().await)
    }

    pub(crate) fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.inner))
    }

    /// The contracts by which records are looked after in the background. A layer makes its own known.
    pub fn policies(&self) -> &Policies {
        &self.inner.policies
    }

    /// How to ask whether a command of this operation took effect, where its policy has
    /// [`Recovery::Probe`](samekey_core::Recovery::Probe). A later one takes its place.
    pub fn probe(&self, operation: impl Into<String>, probe: Probe) {
        self.inner.probes.add(operation.into(), probe);
    }

    pub(crate) fn probes(&self) -> &Probes {
        &self.inner.probes
    }

    /// One turn of the sweeper: drops what is due, for a few milliseconds at most. The store does this by itself.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        on!(self, backend => backend.sweep(Arc::clone(&self.inner.policies)).await)
    }

    /// Looks without a turn under the write lock. `None`: [`Store::deliver`] has to decide, because there is no
    /// record yet, or something is to be written, or the delivery is to run.
    pub async fn peek(&self, ask: &Ask) -> Result<Option<Told>, StoreError> {
        on!(self, backend => backend.peek(ask).await)
    }

    /// The record that a delivery meets, as it is.
    pub async fn find(&self, ask: &Ask) -> Result<Option<Found>, StoreError> {
        on!(self, backend => backend.find(ask).await)
    }

    /// A record by its name.
    pub async fn by_id(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        on!(self, backend => backend.by_id(id).await)
    }

    /// A record by its name, with its scope and key.
    pub async fn case(&self, id: RecordId) -> Result<Option<Case>, StoreError> {
        on!(self, backend => backend.case(id).await)
    }

    /// The stored response of a record, if there is one.
    pub async fn response(&self, id: RecordId) -> Result<Option<StoredResponse>, StoreError> {
        on!(self, backend => backend.response(id).await)
    }

    /// Names without a space under which records stand that a client may still ask for, outside of `known`, and how
    /// many they are. Tombstones, and answers past their retention, do not count.
    pub async fn operations_in_use(&self, known: Arc<BTreeSet<String>>) -> Result<Vec<(String, u64)>, StoreError> {
        on!(self, backend => backend.operations_in_use(known).await)
    }

    /// A delivery meets its record. What it is told is durable. Dropping the future does not take the claim back.
    pub async fn deliver(&self, ask: Ask) -> Result<Told, StoreError> {
        on!(self, backend => backend.deliver(ask).await)
    }

    /// Closes a key that never ran, so that it never will; [`Say::Closed`](samekey_core::claim::Say::Closed) says that
    /// it is, or was before. Otherwise what a delivery would be told. The fingerprint is not looked at.
    pub async fn close_key(&self, ask: Ask) -> Result<Told, StoreError> {
        on!(self, backend => backend.close_key(ask).await)
    }

    /// An event meets a record. `response` goes with a terminal answer whose `has_response` is set. Never refused
    /// because the store is busy with claims; an error is for the caller to try again.
    pub async fn apply(
        &self,
        id: RecordId,
        policy: Arc<Policy>,
        event: Event,
        response: Option<StoredResponse>,
    ) -> Result<Applied, StoreError> {
        self.apply_noted(id, policy, event, response, Note::default()).await
    }

    /// As [`Store::apply`], with what the record's trail keeps: who and why.
    pub async fn apply_noted(
        &self,
        id: RecordId,
        policy: Arc<Policy>,
        event: Event,
        response: Option<StoredResponse>,
        note: Note,
    ) -> Result<Applied, StoreError> {
        on!(self, backend => backend.apply(Change { id, policy, event, response, note }).await)
    }

    /// The holder of a claim is about to call an external system: the claim is proved and the entry written in one
    /// transaction. An error is for the caller to try again, as the same call.
    pub async fn start_effect(&self, start: EffectStart, policy: Arc<Policy>) -> Result<EffectTold, StoreError> {
        on!(self, backend => backend.start_effect(start, policy).await)
    }

    /// The holder of a claim says how a call ended. An error is for the caller to try again.
    pub async fn end_effect(&self, end: EffectEnd) -> Result<EffectNoted, StoreError> {
        on!(self, backend => backend.end_effect(end).await)
    }

    /// The journal of a record.
    pub async fn effects(&self, id: RecordId) -> Result<Vec<Effect>, StoreError> {
        on!(self, backend => backend.effects(id).await)
    }

    /// What happened to a record beyond a claim and its answer.
    pub async fn trail(&self, id: RecordId) -> Result<Vec<Step>, StoreError> {
        on!(self, backend => backend.trail(id).await)
    }

    /// Claims whose lease or deadline is over, so that a tick is due: from the beginning, or where a list went on.
    pub async fn lapsed(&self, after: Option<Place>, limit: usize) -> Result<Cases, StoreError> {
        on!(self, backend => backend.lapsed(after, limit).await)
    }

    /// Records whose outcome is unknown and at which a look is due: from the beginning, or where a list went on.
    pub async fn uncertain(&self, after: Option<Place>, limit: usize) -> Result<Cases, StoreError> {
        on!(self, backend => backend.uncertain(after, limit).await)
    }

    /// Takes the next look at an uncertain record; false if it changed since, or somebody else took that look. It may
    /// be lost with its process: from [`Look::next`] on others may take the one after it.
    pub async fn take_look(&self, look: Look) -> Result<bool, StoreError> {
        on!(self, backend => backend.take_look(look).await)
    }

    /// Renews this process's own claim, up to its deadline, while the guard lives.
    /// `asked` is when, on the monotonic clock, the claim was asked for.
    pub fn hold(&self, id: RecordId, fence: Fence, policy: &Policy, asked: Duration) -> Hold {
        let lease = hold::Lease { id, fence, length: policy.lease };
        let (hold, first) = self.inner.holds.add(lease, asked, self.clock().monotonic());
        if first {
            on!(self, backend => backend.nudge());
        }
        hold
    }

    /// When, on the monotonic clock, the last acknowledged proof of a held claim was asked for; zero where it is not held.
    pub(crate) fn proved_at(&self, id: RecordId, fence: Fence) -> Duration {
        self.inner.holds.proved_at(id, fence)
    }

    pub(crate) fn waiting_room(&self) -> &WaitingRoom {
        &self.inner.waiting
    }

    /// Tells when a record of this actor and key changes, from now on. Watch first, then look.
    pub fn watch(&self, ask: &Ask) -> Watch {
        let (watch, first) = self.inner.hub.watch(ask.actor.stored(), ask.key.expose());
        if first {
            on!(self, backend => backend.nudge());
        }
        watch
    }

    /// Whether this process may call a claim under this lease lapsed.
    pub fn may_judge(&self, lease: Duration) -> bool {
        on!(self, backend => backend.may_judge(lease))
    }

    pub(crate) fn secret(&self) -> &Secret {
        on!(self, backend => backend.secret())
    }

    /// Whether the times in the store mean what they say: nobody stepped the clock for so long.
    pub(crate) fn trusts_times(&self, span: Duration) -> bool {
        on!(self, backend => backend.trusts_times(span))
    }

    /// HMAC-SHA256 under this store's secret, over a purpose and framed parts.
    pub(crate) fn keyed_hash(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        self.secret().keyed_hash(purpose, parts)
    }

    /// What logs say in place of a key or an actor: enough to find lines that belong together.
    pub(crate) fn log_hash(&self, purpose: &str, text: &str) -> String {
        self.secret().log_hash(purpose, text)
    }

    /// A key for an external system: the same on every attempt of the same command, and no hint at the key itself.
    pub(crate) fn provider_key(&self, actor: &Actor, operation: &str, key: &Key, effect: &str) -> String {
        let parts = [actor.stored(), operation, key.expose(), effect].map(str::as_bytes);
        crate::hex(&self.keyed_hash("provider", &parts)[..16])
    }

    /// Keeps what kind of actor this store's records belong to. `Some` is another kind that was kept before and
    /// stands in the way: records under it are still remembered, and nothing was changed.
    #[cfg(feature = "cli")]
    pub(crate) async fn keep_actor_kind(
        &self,
        kind: &str,
        remember: Duration,
        accept_change: bool,
    ) -> Result<Option<String>, StoreError> {
        on!(self, backend => backend.keep_actor_kind(kind.to_owned(), remember, accept_change).await)
    }

    /// Removes what is stored of an actor: answers, ids of results and requests, what was noted, and the actor's id, in
    /// whose place a keyed hash of it stands from now on. What stays protects: that a key was used, with its
    /// fingerprint, how its command ended and its status. Works while other processes use the store. Backups are not
    /// touched.
    pub async fn erase(&self, actor: &Actor) -> Result<Erased, StoreError> {
        on!(self, backend => backend.erase(actor.clone()).await)
    }

    /// Copies the store into a new file, while it is used. Claims go before.
    pub async fn backup(&self, to: impl Into<PathBuf>) -> Result<Backup, StoreError> {
        on!(self, backend => backend.backup(to.into()).await)
    }

    /// Sets a horizon once: `None` if this very one was set before. Otherwise of how many records nobody knows any more
    /// how they ended.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "only the binary has it in its configuration"))]
    pub(crate) async fn set_horizon(&self, horizon: Timestamp) -> Result<Option<usize>, StoreError> {
        on!(self, backend => backend.set_horizon(horizon, Arc::clone(&self.inner.policies)).await)
    }

    /// What the store's clock shows.
    pub fn now(&self) -> Timestamp {
        on!(self, backend => backend.now())
    }

    /// The clock of this host. Records are dated by [`Store::now`].
    pub fn clock(&self) -> &Clock {
        on!(self, backend => backend.clock())
    }

    /// A small write, to see whether the store takes one; the answer is believed for a second.
    pub async fn ready(&self) -> Result<(), StoreError> {
        let mut health = self.inner.health.lock().await;
        let now = self.clock().monotonic();
        if let Some((_, said)) = health.as_ref().filter(|(at, _)| now.saturating_sub(*at) < HEALTH_HOLDS) {
            return said.clone();
        }
        let said = on!(self, backend => backend.ready().await);
        *health = Some((self.clock().monotonic(), said.clone()));
        said
    }

    /// How many records there are, and the like; costs the same however many there are.
    pub(crate) async fn sample(&self) -> Result<Sample, StoreError> {
        on!(self, backend => backend.sample().await)
    }

    /// Writes that wait, now.
    pub(crate) fn queue(&self) -> Queue {
        on!(self, backend => backend.queue())
    }

    /// Where a store for tests is.
    #[cfg(all(test, feature = "testing"))]
    pub(crate) fn folder(&self) -> PathBuf {
        match &self.inner.backend {
            Backend::Sqlite(backend) => backend.folder().unwrap_or_default(),
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => PathBuf::new(),
        }
    }

    /// The contract under which a record of this operation is settled: the defaults where nobody made one known.
    pub(crate) fn contract_of(&self, operation: &str) -> Arc<Policy> {
        let known = self.inner.policies.of(operation, !operation.contains(' '));
        known.unwrap_or_else(|| Arc::new(Policy::new(operation.to_owned())))
    }

    /// Writes what is queued and closes the file. Whoever asks afterwards hears [`StoreError::Closed`].
    pub async fn close(&self) {
        if let Some(keeper) = self.inner.keeper.get() {
            keeper.end().await;
        }
        on!(self, backend => backend.close().await);
    }
}
