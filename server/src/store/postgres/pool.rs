//! Connections, and what is done on a new one before it may serve.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

use super::PostgresOptions;
use super::error;
use super::timeline::Timeline;
use crate::store::StoreError;

/// How long whoever gives a connection back waits for its transaction to end.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(1);

/// A connection of the pool. Dropped, it is closed, and with it whatever transaction it was in; only
/// [`give_back`] returns it.
pub(super) struct Link(Option<Object>);

impl Link {
    fn object(&self) -> &Object {
        self.0.as_ref().expect("a link holds its connection until it is given back")
    }
}

/// What can be asked of a connection, of the pool or of the application's own.
pub(super) trait Speak: Sync {
    fn query(&self, sql: &str, values: Values<'_>) -> impl Future<Output = Result<Vec<Row>, PgError>> + Send;
    fn query_opt(&self, sql: &str, values: Values<'_>) -> impl Future<Output = Result<Option<Row>, PgError>> + Send;
    fn query_one(&self, sql: &str, values: Values<'_>) -> impl Future<Output = Result<Row, PgError>> + Send;
    fn execute(&self, sql: &str, values: Values<'_>) -> impl Future<Output = Result<u64, PgError>> + Send;
}

/// What stands for `$1`, `$2`, ….
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Statements are prepared once for each connection of the pool.
impl Speak for Link {
    async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, PgError> {
        let statement = self.object().prepare_cached(sql).await?;
        self.object().query(&statement, values).await
    }

    async fn query_opt(&self, sql: &str, values: Values<'_>) -> Result<Option<Row>, PgError> {
        let statement = self.object().prepare_cached(sql).await?;
        self.object().query_opt(&statement, values).await
    }

    async fn query_one(&self, sql: &str, values: Values<'_>) -> Result<Row, PgError> {
        let statement = self.object().prepare_cached(sql).await?;
        self.object().query_one(&statement, values).await
    }

    async fn execute(&self, sql: &str, values: Values<'_>) -> Result<u64, PgError> {
        let statement = self.object().prepare_cached(sql).await?;
        self.object().execute(&statement, values).await
    }
}

impl Speak for Transaction<'_> {
    async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, PgError> {
        GenericClient::query(self, sql, values).await
    }

    async fn query_opt(&self, sql: &str, values: Values<'_>) -> Result<Option<Row>, PgError> {
        GenericClient::query_opt(self, sql, values).await
    }

    async fn query_one(&self, sql: &str, values: Values<'_>) -> Result<Row, PgError> {
        GenericClient::query_one(self, sql, values).await
    }

    async fn execute(&self, sql: &str, values: Values<'_>) -> Result<u64, PgError> {
        GenericClient::execute(self, sql, values).await
    }
}

type PgError = tokio_postgres::Error;

impl Deref for Link {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.object()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// No transaction is open: others may use it.
pub(super) fn give_back(link: Arc<Link>) {
    // Whoever still had it would see it end; nobody has, once the work that it was lent to is done.
    if let Some(mut link) = Arc::into_inner(link) {
        link.0.take();
    }
}

/// Ends what may be open, and gives the connection back if that came off.
pub(super) async fn roll_back(link: Arc<Link>) {
    if let Ok(Ok(())) = tokio::time::timeout(ROLLBACK_LIMIT, link.batch_execute("ROLLBACK")).await {
        give_back(link);
    }
}

/// The pool of a store.
#[derive(Clone)]
pub(super) struct Links {
    pool: Pool,
    place: Arc<str>,
    most: usize,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("place", &self.place).field("most", &self.most).finish_non_exhaustive()
    }
}

impl Links {
    pub(super) fn new(options: &PostgresOptions, timeline: Arc<Timeline>) -> Result<Self, StoreError> {
        let place = options.place();
        let manager = Manager::from_config(
            options.config.clone(),
            options.tls.clone(),
            // Whoever gives one back has ended its transaction; asking again would cost a round trip each time.
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let (set_up, for_hook) = (Arc::new(set_up(options)), Arc::clone(&place));
        let hook = Hook::async_fn(move |client, _| {
            let (set_up, place, timeline) = (Arc::clone(&set_up), Arc::clone(&for_hook), Arc::clone(&timeline));
            Box::pin(async move {
                client.batch_execute(&set_up).await.map_err(HookError::Backend)?;
                timeline.check(client, &place).await.map_err(|error| HookError::message(error.to_string()))
            })
        });
        let most = options.connections.max(2);
        let pool = Pool::builder(manager)
            .max_size(most)
            .wait_timeout(Some(options.connect_timeout))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(options.connect_timeout))
            .runtime(Runtime::Tokio1)
            .post_create(hook)
            .build()
            .map_err(|error| StoreError::backend(&place, error))?;
        Ok(Self { pool, place, most })
    }

    /// A connection that may be used: free now, or made now.
    pub(super) async fn get(&self) -> Result<Link, StoreError> {
        let unreachable = |why: &str| StoreError::Unreachable { place: Arc::clone(&self.place), why: why.into() };
        self.pool.get().await.map(|object| Link(Some(object))).map_err(|error| match error {
            PoolError::Closed => StoreError::Closed,
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                match error::of(&self.place, &error) {
                    // What stands in the way of connecting may be put right while this runs: a wrong password too.
                    StoreError::Backend { source, .. } => unreachable(&source.to_string()),
                    error => error,
                }
            }
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
                unreachable(&format!("all {} connections of the pool are busy", self.most))
            }
            PoolError::Timeout(_) => unreachable("connecting took too long"),
            error => unreachable(error.to_string().trim_end()),
        })
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// What each connection is told once.
pub(super) fn set_up(options: &PostgresOptions) -> String {
    let millis = |duration: Duration| duration.as_millis().min(i32::MAX as u128);
    format!(
        // What was acknowledged survives a power cut; whoever wants more of their replicas has said so.
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'; \
         SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET default_transaction_isolation = 'read committed'; \
         SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off",
        millis(options.statement_timeout),
        millis(options.lock_timeout),
        // A server that stopped in the middle of a transaction must not keep its locks.
        millis(options.statement_timeout * 2),
    )
}

/// A connection beside the pool, closed when the client is dropped.
pub(super) async fn connect(options: &PostgresOptions) -> Result<Client, StoreError> {
    let place = options.place();
    let unreachable = |why: &str| StoreError::Unreachable { place: Arc::clone(&place), why: why.into() };
    let connecting = options.config.connect(options.tls.clone());
    let (client, connection) = tokio::time::timeout(options.connect_timeout, connecting)
        .await
        .map_err(|_| unreachable("connecting took too long"))?
        .map_err(|error| error::of(&place, &error))?;
    // It ends with the client; what was wrong with it, the client's next statement tells.
    tokio::spawn(connection);
    Ok(client)
}
