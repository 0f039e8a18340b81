//! What a store means: one suite, run against each backend. Adding a store is passing it.
//!
//! A case gets a bench with an empty store under a clock that stands still, and moves it. The SQLite store is dated by
//! the clock of its process, so that one moves; the PostgreSQL store by its database's, whose part a function of the
//! test's own schema plays.

mod claims;
mod closing;
mod journal;
mod leases;
pub(super) mod settling;
pub(in crate::store) mod sweeping;
mod wakes;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use bytes::Bytes;
use samekey_core::claim::Say;
use samekey_core::claim::transition::Finish;
use samekey_core::select::Profile;
use samekey_core::select::Significant;

use super::sqlite::tests::*;
use super::*;
use crate::clock::Hands;

#[cfg(feature = "postgres")]
#[path = "../../../../tests/support/postgres.rs"]
#[allow(dead_code, unreachable_pub, reason = "the suites' own, each of which uses a part")]
pub(crate) mod server;

/// Makes each case a test of each backend.
macro_rules! cases {
    ($($name:ident,)+) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Bench::sqlite().await).await;
            })+
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                // Without a server to test against, the case says so.
                if let Some(bench) = super::Bench::postgres().await {
                    super::$name(bench).await;
                }
            })+
        }
    };
}
use cases;

/// A store of its own, under a clock that stands still.
pub(super) struct Bench {
    pub(super) store: Store,
    hands: Hands,
    clock: Clock,
    /// What the store's clock shows.
    shown: Mutex<Timestamp>,
    place: Where,
}

/// Where the store is.
enum Where {
    File(TempDir),
    #[cfg(feature = "postgres")]
    Schema(on_postgres::Schema),
}

impl Bench {
    async fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (clock, hands) = Clock::manual(START);
        let store = Store::open(options(&file(&directory), &clock)).await.unwrap();
        Self { store, hands, clock, shown: Mutex::new(START), place: Where::File(directory) }
    }

    /// A second store on the same records, as another process would have it.
    pub(super) async fn second(&self) -> Store {
        match &self.place {
            Where::File(directory) => Store::open(options(&file(directory), &self.clock)).await.unwrap(),
            #[cfg(feature = "postgres")]
            Where::Schema(schema) => Store::open(schema.options(&self.clock)).await.unwrap(),
        }
    }

    /// What the store's clock shows.
    pub(super) fn now(&self) -> Timestamp {
        *self.shown.lock().unwrap()
    }

    /// Time passes.
    pub(super) async fn advance(&self, duration: Duration) {
        let now = self.now() + duration;
        *self.shown.lock().unwrap() = now;
        // First the clock that dates, then the one that tells how long something took: who wakes by it reads the other.
        #[cfg(feature = "postgres")]
        if let Where::Schema(schema) = &self.place {
            schema.show(now).await;
        }
        self.hands.advance(duration);
    }

    /// Somebody sets the store's clock; no time passes.
    pub(super) async fn set_clock(&self, to: Timestamp) {
        *self.shown.lock().unwrap() = to;
        match &self.place {
            Where::File(_) => self.hands.set_wall(to),
            #[cfg(feature = "postgres")]
            Where::Schema(schema) => schema.show(to).await,
        }
    }

    /// Changes something behind the store's back.
    pub(super) async fn sql(&self, text: &str) {
        match &self.place {
            Where::File(directory) => beside(&file(directory)).execute_batch(text).unwrap(),
            #[cfg(feature = "postgres")]
            Where::Schema(schema) => schema.client.batch_execute(text).await.unwrap(),
        }
    }

    /// A backup of this moment was restored.
    pub(super) async fn set_horizon(&self, at: Timestamp) {
        let millis = at.as_millis();
        // SQLite holds it as a number, PostgreSQL as text.
        let value = if matches!(self.place, Where::File(_)) { format!("{millis}") } else { format!("'{millis}'") };
        self.sql(&format!("INSERT INTO samekey_meta VALUES ('horizon', {value})")).await;
    }

    pub(super) async fn number(&self, text: &str) -> i64 {
        match &self.place {
            Where::File(directory) => beside(&file(directory)).query_row(text, [], |row| row.get(0)).unwrap(),
            #[cfg(feature = "postgres")]
            Where::Schema(schema) => schema.client.query_one(text, &[]).await.unwrap().get(0),
        }
    }

    pub(super) async fn count(&self, what: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {what}")).await
    }
}

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("samekey.db")
}

fn options(path: &std::path::Path, clock: &Clock) -> SqliteOptions {
    SqliteOptions::new(path).clock(clock.clone()).min_free_bytes(0).unattended()
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A schema of its own on the server of this process.
    pub(in crate::store) struct Schema {
        pub(in crate::store) client: tokio_postgres::Client,
        url: String,
        _server: Arc<server::Postgres>,
    }

    impl Schema {
        pub(in crate::store) async fn new() -> Option<Self> {
            static SCHEMAS: AtomicU32 = AtomicU32::new(0);
            let server = tokio::task::block_in_place(server::Postgres::of_this_process)?;
            let name = format!("case_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
            let url = format!("{}?sslmode=disable&options=-csearch_path%3D{name}", server.url("postgres"));
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client
                .batch_execute(&format!(
                    "CREATE SCHEMA {name}; CREATE TABLE test_clock AS SELECT {}::bigint AS millis; \
                     CREATE FUNCTION test_now() RETURNS bigint LANGUAGE sql AS 'SELECT millis FROM test_clock'",
                    START.as_millis()
                ))
                .await
                .unwrap();
            Some(Self { client, url, _server: server })
        }

        pub(in crate::store) fn options(&self, clock: &Clock) -> PostgresOptions {
            PostgresOptions::new(&self.url).unwrap().clock(clock.clone()).unattended().test_clock("test_now()")
        }

        pub(super) async fn show(&self, now: Timestamp) {
            self.client.execute("UPDATE test_clock SET millis = $1", &[&now.as_millis()]).await.unwrap();
        }
    }

    impl Bench {
        pub(in crate::store) async fn postgres() -> Option<Self> {
            let schema = Schema::new().await?;
            // The host's own clock is wrong by years, and stays so.
            let (clock, hands) = Clock::manual(Timestamp::from_millis(77));
            let store = Store::open(schema.options(&clock)).await.unwrap();
            Some(Self { store, hands, clock, shown: Mutex::new(START), place: Where::Schema(schema) })
        }

        /// Somebody sets the clock of this host, which dates nothing.
        pub(in crate::store) fn step_host(&self, millis: i64) {
            self.hands.set_wall(Timestamp::from_millis(self.clock.now().as_millis() + millis));
        }

        /// The options that the store was opened with.
        pub(in crate::store) fn postgres_options(&self) -> PostgresOptions {
            let Where::Schema(schema) = &self.place else { panic!("a bench on PostgreSQL") };
            schema.options(&self.clock)
        }
    }
}
