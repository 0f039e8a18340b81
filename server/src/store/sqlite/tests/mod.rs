//! Real files in temporary directories.

mod copies;
mod erasing;
mod faults;
mod figures;
mod files;
mod leases;
mod listing;
mod recovering;
mod sampling;
mod settling;
mod sweeping;
mod trouble;

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use samekey_core::claim::transition::Finish;
use samekey_core::claim::{Event, Fence, Holder, Say, Terminal};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::select::{Profile, Significant};
use samekey_core::{Actor, Key, Policy, Timestamp};
use tempfile::TempDir;

use super::{Sqlite, SqliteOptions};
use crate::clock::{Clock, Hands};
use crate::store::{Applied, Ask, Backend, RecordId, Store, StoredResponse};

/// Some day in 2026.
pub(in crate::store) const START: Timestamp = Timestamp::from_millis(1_796_000_000_000);

/// A store in a directory of its own, under a clock that stands still, with nobody who writes unasked: moving the hands
/// in the middle of a write would look like a stall.
struct Bench {
    directory: TempDir,
    clock: Clock,
    hands: Hands,
    store: Store,
    attended: bool,
}

impl Bench {
    async fn new() -> Self {
        Self::with(|options| options).await
    }

    /// With a keeper.
    async fn attended() -> Self {
        Self::with(|options| SqliteOptions { attended: true, ..options }).await
    }

    async fn with(options: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        Self::within(tempfile::tempdir().unwrap(), options).await
    }

    /// In memory where that is to be had: for tests of what is written, and not of the disk, many times over.
    async fn swift() -> Self {
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::within(memory.unwrap(), |options| options).await
    }

    async fn within(directory: TempDir, options: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        let (clock, hands) = Clock::manual(START);
        let of = SqliteOptions::new(directory.path().join("samekey.db")).clock(clock.clone());
        let options = options(of.min_free_bytes(0).unattended());
        let attended = options.attended;
        let store = Store::open(options).await.unwrap();
        Self { directory, clock, hands, store, attended }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("samekey.db")
    }

    fn options(&self) -> SqliteOptions {
        let of = SqliteOptions::new(self.path()).clock(self.clock.clone()).min_free_bytes(0);
        SqliteOptions { attended: self.attended, ..of }
    }

    fn backend(&self) -> &Sqlite {
        match &self.store.inner.backend {
            Backend::Sqlite(backend) => backend,
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => panic!("opened as SQLite"),
        }
    }

    /// A second store on the same file, as another process would have it.
    async fn second(&self) -> Store {
        Store::open(self.options()).await.unwrap()
    }

    /// Runs on the writer's thread, on its connection.
    async fn on_writer<T: Send + 'static>(&self, hook: impl FnOnce(&rusqlite::Connection) -> T + Send + 'static) -> T {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.backend().hook(move |conn| drop(reply.send(hook(conn))));
        answer.await.unwrap()
    }

    /// Stops the writer until the guard is dropped: what is asked meanwhile becomes one batch.
    fn pause(&self) -> mpsc::Sender<()> {
        let (guard, over) = mpsc::channel::<()>();
        self.backend().hook(move |_| while over.recv().is_ok() {});
        guard
    }
}

/// A second look at the file, beside the store.
pub(in crate::store) fn beside(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

pub(in crate::store) fn count(path: &Path, what: &str) -> i64 {
    beside(path).query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0)).unwrap()
}

pub(in crate::store) fn holder(number: u8) -> Holder {
    Holder::from_bytes([number; 16])
}

pub(in crate::store) fn fingerprint(profile: &Profile, byte: u8) -> Fingerprint {
    Fingerprint::parse(&format!("fp1:raw:{}:{}", profile.id(), format!("{byte:02x}").repeat(32))).unwrap()
}

/// A delivery by `ann` to `orders.create`.
pub(in crate::store) fn ask(key: &str) -> Ask {
    ask_under(key, Policy::new("orders.create"))
}

pub(in crate::store) fn ask_under(key: &str, policy: Policy) -> Ask {
    let profile = Profile::new(Some("/orders".into()), Significant::default()).unwrap();
    Ask {
        actor: Actor::new("ann"),
        operation: policy.operation.clone(),
        also: vec!["POST /orders".into()],
        configured: true,
        key: key.parse().unwrap(),
        fingerprint: fingerprint(&profile, 1),
        profile: Arc::new(profile),
        policy: Arc::new(policy),
        request_id: Some("r1".into()),
        holder: holder(1),
        fence_credentials: false,
        named: None,
    }
}

/// A v7 key of that moment.
pub(in crate::store) fn minted(at: Timestamp) -> String {
    Key::mint(at, [7; 10]).expose().to_owned()
}

pub(in crate::store) async fn run(store: &Store, ask: &Ask) -> (RecordId, Fence) {
    let told = store.deliver(ask.clone()).await.unwrap();
    let Say::Run(fence) = told.say else { panic!("{told:?}") };
    (told.found.unwrap().id, fence)
}

pub(in crate::store) fn terminal(status: u16) -> Terminal {
    Terminal { status: Some(status), reason: None, result_id: Some("o1".into()), has_response: true }
}

pub(in crate::store) fn answer(body: &'static str) -> StoredResponse {
    let field =
        |name: &'static str, value: &[u8]| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
    StoredResponse {
        headers: vec![
            field("link", b"<a>; rel=next"),
            field("content-type", b"text/plain; charset=\"caf\xe9\""),
            field("link", b"<b>; rel=last"),
            field("etag", b""),
        ],
        body: Bytes::from_static(body.as_bytes()),
    }
}

pub(in crate::store) async fn finish(store: &Store, ask: &Ask, id: RecordId, fence: Fence) -> Applied {
    let event = Event::Finish(fence, Finish::Terminal(terminal(201)));
    store.apply(id, Arc::clone(&ask.policy), event, Some(answer("done"))).await.unwrap()
}

/// Waits for what another task brings about.
pub(in crate::store) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came to hold");
}

pub(in crate::store) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
