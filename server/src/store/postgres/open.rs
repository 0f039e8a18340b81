//! Opening a database: which schema it has, and what the store remembers of itself.

use std::sync::Arc;

use samekey_core::Timestamp;
use tokio_postgres::{Client, GenericClient};

use super::error;
use super::{PostgresOptions, import, pool, sql};
use crate::store::StoreError;

/// The tables of a store, or of an application's own database. Running it again changes nothing.
pub(crate) const TABLES: &str = concat!(
    include_str!("migrations/0001_records.sql"),
    // Where an application makes them: memory begins here.
    "INSERT INTO samekey_meta SELECT 'created_at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text \
     ON CONFLICT DO NOTHING;\n",
);

/// Each brings the tables from its number to the next.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_records.sql")];

/// The newest schema that is known here.
const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// What the store remembers of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Birth {
    pub(super) created_at: Timestamp,
    pub(super) secret: [u8; 32],
}

/// Makes or moves the tables, and reads what the store remembers of itself.
pub(super) async fn open(options: &PostgresOptions) -> Result<Birth, StoreError> {
    let place = options.place();
    let mut client = pool::connect(options).await?;
    let of = |error| error::of(&place, &error);
    client.batch_execute(&pool::set_up(options)).await.map_err(of)?;
    refuse_unfit(&client, &place).await?;
    migrate(&mut client, &sql::clock(options), &place).await?;
    birth(&client, &sql::clock(options), &place).await
}

/// A copy of a file that was not compared to its end holds some of what it should remember, and would run the rest.
pub(super) async fn refuse_unfinished(options: &PostgresOptions) -> Result<(), StoreError> {
    let client = pool::connect(options).await?;
    let place = options.place();
    let mark = "SELECT 1 FROM samekey_meta WHERE name = $1";
    match client.query_opt(mark, &[&import::MARK]).await.map_err(|error| error::of(&place, &error))? {
        None => Ok(()),
        Some(_) => Err(StoreError::misuse(format!(
            "{place}: a migration into this database was interrupted; start `samekey migrate` again with the same words"
        ))),
    }
}

/// What would lose or change what is stored.
async fn refuse_unfit(client: &Client, place: &Arc<str>) -> Result<(), StoreError> {
    let row = client
        .query_one(
            "SELECT current_setting('server_encoding'), current_setting('fsync'), current_setting('server_version')",
            &[],
        )
        .await
        .map_err(|error| error::of(place, &error))?;
    let (encoding, fsync, version): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    if encoding != "UTF8" {
        let why = format!("its encoding is {encoding}; make one with ENCODING 'UTF8' and name that");
        return Err(StoreError::backend(place, why));
    }
    if fsync == "off" {
        tracing::warn!(store = %place, "the server runs with fsync = off: after a power cut it may have lost claims that were acknowledged");
    }
    tracing::debug!(store = %place, version, "connected");
    Ok(())
}

/// Brings the tables up to date, under a lock: servers that start together make them once.
pub(super) async fn migrate(client: &mut Client, clock: &str, place: &Arc<str>) -> Result<(), StoreError> {
    let of = |error| error::of(place, &error);
    // A role that may not change tables can still use those that are there.
    if version(client, place).await? == SCHEMA {
        return Ok(());
    }
    let tx = client.transaction().await.map_err(of)?;
    tx.batch_execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0").await.map_err(of)?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&sql::SCHEMA_LOCK]).await.map_err(of)?;
    let found = version(&tx, place).await?;
    for migration in MIGRATIONS.iter().skip(found as usize) {
        tx.batch_execute(migration).await.map_err(of)?;
    }
    note_creation(&tx, clock).await.map_err(of)?;
    tx.execute(
        "INSERT INTO samekey_meta VALUES ('schema', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        &[&SCHEMA.to_string()],
    )
    .await
    .map_err(of)?;
    tx.commit().await.map_err(of)
}

/// The tables' schema; none where there are no tables, or an application made them by itself.
async fn version(client: &impl GenericClient, place: &Arc<str>) -> Result<u32, StoreError> {
    let of = |error| error::of(place, &error);
    let there: bool = client.query_one("SELECT to_regclass('samekey_meta') IS NOT NULL", &[]).await.map_err(of)?.get(0);
    if !there {
        return Ok(0);
    }
    let kept = client.query_opt("SELECT value FROM samekey_meta WHERE name = 'schema'", &[]).await.map_err(of)?;
    let Some(kept) = kept.map(|row| row.get::<_, String>(0)) else { return Ok(0) };
    match kept.parse::<u32>() {
        Ok(found) if found <= SCHEMA => Ok(found),
        found => {
            let found = found.unwrap_or(u32::MAX);
            Err(StoreError::NewerSchema { place: Arc::clone(place), found, known: SCHEMA })
        }
    }
}

/// Reads the store's own facts, or draws them in a store that has just been made.
async fn birth(client: &Client, clock: &str, place: &Arc<str>) -> Result<Birth, StoreError> {
    let of = |error| error::of(place, &error);
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| StoreError::backend(place, format!("no random numbers: {error}")))?;
    // In tables that an application made with a tool of its own, and never used.
    note_creation(client, clock).await.map_err(of)?;
    client
        .execute("INSERT INTO samekey_meta VALUES ('secret', $1) ON CONFLICT DO NOTHING", &[&crate::hex(&secret)])
        .await
        .map_err(of)?;
    let row = client
        .query_one(
            "SELECT (SELECT value::bigint FROM samekey_meta WHERE name = 'created_at'), decode(value, 'hex') \
             FROM samekey_meta WHERE name = 'secret'",
            &[],
        )
        .await
        .map_err(of)?;
    let kept: &[u8] = row.get(1);
    let secret = kept.try_into().map_err(|_| StoreError::backend(place, "the store's secret is damaged"))?;
    Ok(Birth { created_at: Timestamp::from_millis(row.get(0)), secret })
}

/// Memory begins when the tables are first used.
pub(super) async fn note_creation(client: &impl GenericClient, clock: &str) -> Result<(), tokio_postgres::Error> {
    let note = format!("INSERT INTO samekey_meta SELECT 'created_at', ({clock})::text ON CONFLICT DO NOTHING");
    client.execute(&note, &[]).await.map(drop)
}
