//! A store under a clock that stands still, an external system that counts, and commands of `ann`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::StatusCode;
use samekey::clock::{Clock, Hands};
use samekey::store::SqliteOptions;
use samekey::{
    Actor, Answer, Claim, Claimed, Command, EffectError, Fingerprint, Key, Outcome, Policy, Problem, ProviderKey,
    Record, State, Store, Timestamp,
};

/// A store in a folder that goes away with it.
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) hands: Hands,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) async fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let (clock, hands) = Clock::manual(Timestamp::from_millis(1_796_000_000_000));
    let options = SqliteOptions::new(folder.path().join("samekey.db")).clock(clock).min_free_bytes(0);
    let store = Store::open(options.busy_timeout(Duration::from_millis(20))).await.unwrap();
    Bench { store, hands, folder }
}

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A lease of 30 s, a deadline after 60 s, 90 s until whatever is under way is over. Nobody waits.
pub(crate) fn policy() -> Policy {
    Policy::new("checkout").wait(Duration::ZERO, Duration::ZERO)
}

/// What is over within half a second, on the machine's own clock.
pub(crate) fn quick() -> Policy {
    let ms = Duration::from_millis;
    let mut policy = policy().lease(ms(100)).timeout(ms(200));
    policy.probe_after = Some(ms(300));
    policy
}

pub(crate) fn command(key: &str) -> Command {
    let fingerprint = Fingerprint::of_json(&serde_json::json!({ "sku": "tea" })).unwrap();
    Command::new(Actor::new("ann"), "checkout", key.parse().unwrap(), fingerprint)
}

impl Bench {
    /// Claims what must be free.
    pub(crate) async fn claim(&self, key: &str, policy: &Policy) -> Claim {
        match self.store.claim(&command(key), policy).await {
            Ok(Claimed::Run(claim)) => claim,
            other => panic!("{other:?}"),
        }
    }

    /// What a delivery hears that must not run.
    pub(crate) async fn hears(&self, key: &str, policy: &Policy) -> Result<Outcome, Problem> {
        match self.store.claim(&command(key), policy).await? {
            Claimed::Replay(outcome) => Ok(outcome),
            Claimed::Run(claim) => panic!("it runs: {claim:?}"),
        }
    }

    pub(crate) async fn record(&self, key: &str) -> Record {
        let key: Key = key.parse().unwrap();
        self.store.look(&Actor::new("ann"), "checkout", &key).await.unwrap().expect("a record")
    }

    pub(crate) async fn state(&self, key: &str) -> State {
        self.record(key).await.state
    }

    /// Waits for what another task is about to write.
    pub(crate) async fn becomes(&self, key: &str, state: State) {
        let (actor, key) = (Actor::new("ann"), key.parse::<Key>().unwrap());
        let look = async || self.store.look(&actor, "checkout", &key).await.unwrap();
        let looks = async {
            while look().await.is_none_or(|record| record.state != state) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(s(10), looks).await.is_err() {
            panic!("{:?}, not {state:?}", look().await);
        }
    }

    /// Another process holds the write lock until this is dropped.
    pub(crate) fn locked(&self) -> Lock {
        let conn = rusqlite::Connection::open(self.folder.path().join("samekey.db")).unwrap();
        conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        Lock(conn)
    }
}

pub(crate) struct Lock(rusqlite::Connection);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

/// Calls that reached the external system.
#[derive(Clone, Default)]
pub(crate) struct Provider(Arc<AtomicU32>);

impl Provider {
    pub(crate) fn calls(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Counts and says so.
    pub(crate) fn called(&self) -> String {
        format!("ch_{}", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub(crate) async fn charge(&self, claim: &mut Claim) -> Result<String, EffectError> {
        claim.effect("charge", |_| async { Ok(self.called()) }).await
    }

    /// Its answer is lost.
    pub(crate) async fn lose(&self, claim: &mut Claim) -> EffectError {
        let call = |_: ProviderKey| async {
            self.called();
            Err(EffectError::unknown("timed out"))
        };
        claim.effect::<String, _, _>("charge", call).await.unwrap_err()
    }
}

pub(crate) fn created() -> Answer {
    Answer::json(StatusCode::CREATED, "done").result_id("o1")
}

pub(crate) fn declined() -> Answer {
    Answer::empty(StatusCode::PAYMENT_REQUIRED)
}
