//! A store, its clock, and what happens to both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samekey::clock::{Clock, Hands};
use samekey::store::{Ask, Policies, SqliteOptions, StoredResponse};
use samekey::{Actor, Key, Policy, Store};
use samekey_core::Timestamp;
use samekey_core::claim::transition::Finish;
use samekey_core::claim::{Event, Holder, Say, Terminal};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::select::{Profile, Significant};
use tempfile::TempDir;

use crate::caller::Caller;
use crate::weather::Wrong;

/// When every store is made.
pub(crate) const BIRTH: Timestamp = Timestamp::from_millis(1_796_000_000_000);

pub(crate) struct Server {
    folder: TempDir,
    file: PathBuf,
    clock: Clock,
    hands: Hands,
    store: Store,
    template: Ask,
    wrong: Wrong,
    /// In truth, since [`BIRTH`].
    elapsed: Duration,
    /// A restart may end after what was planned next.
    may_be_late: bool,
    numbers: u64,
    backup_at: Option<Timestamp>,
    restored_at: Option<Timestamp>,
}

impl Server {
    pub(crate) async fn start(may_be_late: bool) -> Self {
        // In memory where that is to be had: it is not the disk that is tested here.
        let shm = PathBuf::from("/dev/shm");
        let folder = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a folder");
        let file = folder.path().join("samekey.db");
        let (clock, hands) = Clock::manual(BIRTH);
        let template = template();
        let store = open(&file, &clock, &template).await;
        Self {
            folder,
            file,
            clock,
            hands,
            store,
            template,
            wrong: Wrong::Right,
            elapsed: Duration::ZERO,
            may_be_late,
            numbers: 0,
            backup_at: None,
            restored_at: None,
        }
    }

    /// In truth.
    pub(crate) fn now(&self) -> Timestamp {
        BIRTH + self.elapsed
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    pub(crate) fn day(&self) -> f64 {
        self.elapsed.as_secs_f64() / 86_400.0
    }

    /// When a backup was restored, by the clock of that moment, which was right.
    pub(crate) fn horizon(&self) -> Option<Timestamp> {
        self.restored_at
    }

    /// What ran at that moment is not in the store.
    pub(crate) fn lost_since(&self, then: Timestamp) -> bool {
        self.restored_at.is_some_and(|restored| then < restored) && self.backup_at.is_some_and(|backup| then >= backup)
    }

    pub(crate) async fn until(&mut self, at: Duration) {
        let passes = at.checked_sub(self.elapsed);
        assert!(passes.is_some() || self.may_be_late, "time goes on");
        self.passes(passes.unwrap_or_default());
    }

    fn passes(&mut self, time: Duration) {
        self.elapsed += time;
        self.hands.advance(time);
    }

    pub(crate) fn step(&mut self, wrong: Wrong) {
        self.wrong = wrong;
        self.hands.set_wall(match wrong {
            Wrong::Right => self.now(),
            Wrong::Ahead(by) => self.now() + by,
            Wrong::Behind(by) => self.now() - by,
        });
    }

    pub(crate) async fn restart(&mut self, down: Duration) {
        self.store.close().await;
        self.passes(down);
        self.store = open(&self.file, &self.clock, &self.template).await;
    }

    pub(crate) async fn backup(&mut self) {
        self.store.backup(self.folder.path().join("backup.db")).await.expect("a backup");
        self.backup_at = Some(self.now());
    }

    pub(crate) async fn restore(&mut self) {
        self.store.close().await;
        let (from, to) = (self.folder.path().join("backup.db"), self.folder.path().join("restored.db"));
        let policies = Policies::default();
        policies.add(Arc::clone(&self.template.policy));
        samekey::store::restore_at(&from, &to, self.clock.now(), &policies).expect("a store");
        self.file = to;
        self.store = open(&self.file, &self.clock, &self.template).await;
        self.restored_at = Some(self.now());
    }

    pub(crate) async fn sweep(&self) {
        while self.store.sweep().await.expect("a turn").more {}
    }

    /// A command of somebody whose clock is right.
    pub(crate) async fn traffic(&mut self) {
        self.numbers += 1;
        let mut entropy = [0xff; 10];
        entropy[..8].copy_from_slice(&self.numbers.to_be_bytes());
        let key = Key::mint(self.now(), entropy);
        self.run(&key).await;
    }

    pub(crate) async fn deliver(&self, caller: &Caller) -> Say {
        self.run(&caller.key).await
    }

    /// One delivery. What runs is done at once.
    async fn run(&self, key: &Key) -> Say {
        let ask = Ask { key: key.clone(), ..self.template.clone() };
        let told = self.store.deliver(ask.clone()).await.expect("an answer");
        if let (Say::Run(fence), Some(found)) = (told.say, &told.found) {
            let terminal = Terminal { status: Some(201), reason: None, result_id: None, has_response: true };
            let response = StoredResponse { headers: Vec::new(), body: Bytes::from_static(b"done") };
            let event = Event::Finish(fence, Finish::Terminal(terminal));
            self.store.apply(found.id, ask.policy, event, Some(response)).await.expect("an end");
        }
        told.say
    }

    pub(crate) async fn stop(self) {
        self.store.close().await;
    }
}

/// Nothing happens of its own accord: the sweeps are the test's.
async fn open(file: &std::path::Path, clock: &Clock, template: &Ask) -> Store {
    let options = SqliteOptions::new(file).clock(clock.clone()).min_free_bytes(0).unattended();
    let store = Store::open(options).await.expect("a store");
    store.policies().add(Arc::clone(&template.policy));
    store
}

fn template() -> Ask {
    let policy = Policy::new("orders.create");
    let profile = Profile::new(None, Significant::default()).expect("a profile");
    let fingerprint = format!("fp1:raw:{}:{}", profile.id(), "0a".repeat(32));
    Ask {
        actor: Actor::new("ann"),
        operation: policy.operation.clone(),
        also: Vec::new(),
        configured: true,
        named: None,
        key: "k".parse().expect("a key"),
        fingerprint: Fingerprint::parse(&fingerprint).expect("a fingerprint"),
        profile: Arc::new(profile),
        policy: Arc::new(policy),
        holder: Holder::from_bytes([1; 16]),
        request_id: None,
        fence_credentials: false,
    }
}
