//! A database that is not the one it was: a replica that took over, a backup that was restored.
//!
//! Either may lack what was acknowledged last, so absence proves nothing before that moment. PostgreSQL gives each
//! such database a new timeline, or another system identifier; which one the records belong to stands in
//! `samekey_meta`. A new connection that sees another one does not serve: the horizon is set first, in one
//! transaction, by whichever process is first. Connections do not outlive the server that they were made to, so no
//! connection serves that was not checked on its own timeline.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use samekey_core::Timestamp;
use samekey_core::claim::{self, Context, Event, Write};
use tokio_postgres::{Client, Transaction};

use super::error::{self, Trouble};
use super::row::{self, Updates};
use super::{PostgresOptions, pool, sql, trail};
use crate::store::{By, Note, Policies, StoreError};

/// The timeline that WAL is written on now. `pg_control_checkpoint` names that of the last checkpoint, which after a
/// promotion is for a while the old one.
const CURRENT: &str = "SELECT (SELECT system_identifier FROM pg_control_system())::text || ':' || \
     substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// Records that are read and written at a time.
const PAGE: i64 = 1000;

/// What this process knows of the database's timeline.
#[derive(Debug)]
pub(super) struct Timeline {
    options: PostgresOptions,
    /// The one that records belong to.
    known: Mutex<Option<String>>,
    /// A task of this process is about to set the horizon.
    setting: AtomicBool,
}

impl Timeline {
    pub(super) fn new(options: PostgresOptions) -> Self {
        Self { options, known: Mutex::default(), setting: AtomicBool::new(false) }
    }

    fn known(&self) -> Option<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// On a new connection: it serves only on the timeline that the records belong to.
    pub(super) async fn check(self: &Arc<Self>, client: &Client, place: &Arc<str>) -> Result<(), StoreError> {
        let Some(current) = current(client, place).await? else { return Ok(()) };
        if self.known().as_ref() == Some(&current) {
            return Ok(());
        }
        if !self.setting.swap(true, Ordering::AcqRel) {
            let timeline = Arc::clone(self);
            // In its own time: there may be many records, and connecting must not take long.
            tokio::spawn(async move {
                if let Err(error) = timeline.settle().await {
                    tracing::error!(event = "store_error", %error, "the horizon could not be set; tried again with the next connection");
                }
                timeline.setting.store(false, Ordering::Release);
            });
        }
        let why = "it is a restored copy or a replica that took over: what it may lack is being marked as uncertain";
        Err(StoreError::Unreachable { place: Arc::clone(place), why: why.into() })
    }

    /// Sets the horizon if the records belong to another timeline, and remembers which it is now.
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
        let place = self.options.place();
        let mut client = pool::connect(&self.options).await?;
        let Some(current) = current(&client, &place).await? else { return Ok(()) };
        let settled = async {
            let tx = begin(&mut client).await?;
            let kept = noted(&tx, "timeline").await?;
            let marked = match kept {
                Some(kept) if kept != current => {
                    let now = self.clock(&tx).await?;
                    Some(mark(&tx, now, now, "another timeline of the database", &self.options.policies).await?)
                }
                _ => None,
            };
            note(&tx, "timeline", &current).await?;
            tx.commit().await?;
            Ok(marked)
        };
        let marked: Option<usize> = settled.await.map_err(|trouble: Trouble| trouble.into_error(&place))?;
        if let Some(records) = marked {
            tracing::warn!(
                event = "horizon",
                records,
                "the database was restored or a replica took over: keys of before may have run without its knowing"
            );
        }
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(current);
        Ok(())
    }

    /// A horizon that stands in the configuration: once for each value. `None`: this one was set before.
    pub(super) async fn configure(&self, horizon: Timestamp, policies: &Policies) -> Result<Option<usize>, StoreError> {
        let mut client = pool::connect(&self.options).await?;
        let set = async {
            let tx = begin(&mut client).await?;
            let value = horizon.as_millis().to_string();
            if noted(&tx, "horizon_configured").await?.as_ref() == Some(&value) {
                return Ok(None);
            }
            note(&tx, "horizon_configured", &value).await?;
            let now = self.clock(&tx).await?;
            let marked = mark(&tx, horizon, now, "a horizon was configured", policies).await?;
            tx.commit().await?;
            Ok(Some(marked))
        };
        set.await.map_err(|trouble: Trouble| trouble.into_error(&self.options.place()))
    }

    async fn clock(&self, tx: &Transaction<'_>) -> Result<Timestamp, Trouble> {
        let row = tx.query_one(&format!("SELECT {}", sql::clock(&self.options)), &[]).await?;
        Ok(Timestamp::from_millis(row.try_get(0)?))
    }
}

/// Under the horizon's lock nobody claims. Another process may be at it; whoever comes second finds it done.
async fn begin(client: &mut Client) -> Result<Transaction<'_>, Trouble> {
    let tx = client.transaction().await?;
    tx.batch_execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on")
        .await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&sql::HORIZON_LOCK]).await?;
    Ok(tx)
}

async fn noted(tx: &Transaction<'_>, name: &str) -> Result<Option<String>, Trouble> {
    let row = tx.query_opt("SELECT value FROM samekey_meta WHERE name = $1", &[&name]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

async fn note(tx: &Transaction<'_>, name: &str, value: &str) -> Result<(), Trouble> {
    let sql = "INSERT INTO samekey_meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    tx.execute(sql, &[&name, &value]).await?;
    Ok(())
}

/// `None` where the server does not tell, as one that only speaks PostgreSQL's protocol.
async fn current(client: &Client, place: &Arc<str>) -> Result<Option<String>, StoreError> {
    match client.query_one(CURRENT, &[]).await {
        Ok(row) => Ok(Some(row.get(0))),
        // Undefined, not permitted, not supported.
        Err(error) if error.code().is_some_and(|code| matches!(&code.code()[..2], "42" | "0A" | "3F")) => {
            tracing::warn!(%error, "the server does not tell its timeline: after a failover or a restore, nothing is marked as uncertain by itself");
            Ok(None)
        }
        Err(error) => Err(error::of(place, &error)),
    }
}

/// Row H1 of core's table for every record, and the horizon, which never moves back. Says how many changed.
async fn mark(
    tx: &Transaction<'_>,
    horizon: Timestamp,
    now: Timestamp,
    why: &str,
    policies: &Policies,
) -> Result<usize, Trouble> {
    tx.execute(
        "INSERT INTO samekey_meta AS m VALUES ('horizon', $1) ON CONFLICT (name) \
         DO UPDATE SET value = greatest(m.value::bigint, excluded.value::bigint)::text",
        &[&horizon.as_millis().to_string()],
    )
    .await?;
    let page = format!(
        "SELECT {} FROM idempotency_keys WHERE state IN ('in_progress', 'released', 'uncertain') AND id > $1 \
         ORDER BY id LIMIT $2 FOR UPDATE",
        row::COLUMNS
    );
    let longest = Arc::new(policies.slowest());
    let note = Note { who: None, why: Some(why.to_owned()) };
    let (mut last, mut marked) = (0_i64, 0);
    loop {
        let rows = tx.query(&page, &[&last, &PAGE]).await?;
        let mut updates = Updates::default();
        let mut steps = Vec::new();
        for row in &rows {
            let found = row::read(row, 0)?;
            last = found.id.0;
            let policy = policies.of(&found.operation, found.configured).unwrap_or_else(|| Arc::clone(&longest));
            let context = Context { now, policy: &policy, may_judge: false, new_holder: crate::new_holder() };
            if let Ok(Write::Update(written)) = claim::transition(&found.record, &Event::Horizon, &context) {
                updates.push(found.id, found.record.revision, &written, None);
                steps.push((found, written));
            }
        }
        if updates.len() > 0 {
            marked += updates.write(tx).await?;
        }
        for (found, written) in &steps {
            trail::add(tx, found.id, (Some(&found.record), written), By::Restore, Some(&note), now).await?;
        }
        if rows.len() < PAGE as usize {
            return Ok(marked);
        }
    }
}
