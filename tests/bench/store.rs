//! The store by itself, against bare rusqlite on the same disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{HeaderValue, header};
use rusqlite::Connection;
use samekey::store::{Ask, PostgresOptions, SqliteOptions, StoredResponse};
use samekey::{Actor, Key, Policy, Store};
use samekey_core::claim::transition::Finish;
use samekey_core::claim::{Event, Holder, Say, Terminal};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::select::{Profile, Significant};
use support::keys;
use tokio::task::JoinSet;

use crate::Turn;

/// Keys that look-ups go to in turn.
const KNOWN: usize = 1000;

/// The same rows as the store writes, each statement in a transaction of its own.
pub(crate) fn rows(folder: &Path, span: Duration) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let conn = Connection::open(folder.path().join("bare.db"))?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.execute_batch(
        "CREATE TABLE k (id INTEGER PRIMARY KEY, actor TEXT, op TEXT, idem_key TEXT, hash TEXT, state TEXT, \
         holder BLOB, lease INTEGER, status INTEGER, headers BLOB, body BLOB, UNIQUE (idem_key, op, actor))",
    )?;
    let (turn, mut took) = (Turn::begin(), Vec::new());
    while !turn.is_over(span) {
        let (key, asked) = (keys::v7(), Instant::now());
        conn.prepare_cached(
            "INSERT INTO k (actor, op, idem_key, hash, state, holder, lease) \
             VALUES ('u', 'orders.create', ?1, ?2, 'in_progress', ?3, 1) ON CONFLICT DO NOTHING",
        )?
        .execute((key, "f".repeat(80), [1_u8; 16]))?;
        conn.prepare_cached("UPDATE k SET state = 'completed', status = 201, headers = ?2, body = ?3 WHERE id = ?1")?
            .execute((conn.last_insert_rowid(), &b"content-type: text/plain\r\n"[..], &b"done"[..]))?;
        took.push(micros(asked));
    }
    turn.report(took, 0);
    Ok(())
}

/// Claims and completions by this many clients, each of whom waits for both.
#[tokio::main]
pub(crate) async fn claims(folder: &Path, clients: usize, span: Duration) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    claim(Store::open(SqliteOptions::new(folder.path().join("claims.db"))).await?, clients, span).await
}

/// The same in a PostgreSQL database.
#[tokio::main]
pub(crate) async fn claims_in(url: &str, clients: usize, span: Duration) -> Result<()> {
    claim(Store::open(PostgresOptions::new(url)?.unattended()).await?, clients, span).await
}

async fn claim(store: Store, clients: usize, span: Duration) -> Result<()> {
    let (turn, template) = (Arc::new(Turn::begin()), template()?);
    let mut working = JoinSet::new();
    for client in 0..clients {
        let (store, template) = (store.clone(), Ask { actor: Actor::new(format!("u{client}")), ..template.clone() });
        let turn = Arc::clone(&turn);
        working.spawn(async move {
            let mut took = Vec::new();
            while !turn.is_over(span) {
                let asked = Instant::now();
                complete(&store, &Ask { key: keys::v7().parse()?, ..template.clone() }).await?;
                took.push(micros(asked));
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(its) = working.join_next().await {
        took.extend(its??);
    }
    turn.report(took, 0);
    store.close().await;
    Ok(())
}

/// Replays by this many askers.
#[tokio::main]
pub(crate) async fn look_ups(folder: &Path, askers: usize, span: Duration) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    look_up(Store::open(SqliteOptions::new(folder.path().join("look-ups.db"))).await?, askers, span).await
}

/// The same in a PostgreSQL database.
#[tokio::main]
pub(crate) async fn look_ups_in(url: &str, askers: usize, span: Duration) -> Result<()> {
    look_up(Store::open(PostgresOptions::new(url)?.unattended()).await?, askers, span).await
}

async fn look_up(store: Store, askers: usize, span: Duration) -> Result<()> {
    let template = template()?;
    let mut known = Vec::new();
    let mut filling = JoinSet::new();
    for _ in 0..KNOWN {
        let (store, ask) = (store.clone(), Ask { key: keys::v7().parse::<Key>()?, ..template.clone() });
        known.push(ask.clone());
        filling.spawn(async move { complete(&store, &ask).await });
    }
    while let Some(filled) = filling.join_next().await {
        filled??;
    }
    let (turn, known) = (Arc::new(Turn::begin()), Arc::new(known));
    let mut working = JoinSet::new();
    for asker in 0..askers {
        let (store, known) = (store.clone(), Arc::clone(&known));
        let turn = Arc::clone(&turn);
        working.spawn(async move {
            let mut took = Vec::new();
            while !turn.is_over(span) {
                let asked = Instant::now();
                let told = store.peek(&known[(took.len() + asker * 31) % known.len()]).await?;
                if told.is_none_or(|told| told.say != Say::Replay) {
                    bail!("no replay");
                }
                took.push(micros(asked));
                if took.len() % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(its) = working.join_next().await {
        took.extend(its??);
    }
    turn.report(took, 0);
    store.close().await;
    Ok(())
}

fn micros(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX)
}

fn template() -> Result<Ask> {
    let policy = Policy::new("orders.create");
    let profile = Profile::new(None, Significant::default())?;
    let fingerprint = Fingerprint::parse(&format!("fp1:raw:{}:{}", profile.id(), "0a".repeat(32)));
    Ok(Ask {
        request_id: None,
        actor: Actor::new("u"),
        operation: policy.operation.clone(),
        also: Vec::new(),
        configured: false,
        named: None,
        key: keys::v7().parse()?,
        fingerprint: fingerprint.ok().context("a fingerprint")?,
        profile: Arc::new(profile),
        policy: Arc::new(policy),
        holder: Holder::from_bytes([1; 16]),
        fence_credentials: true,
    })
}

async fn complete(store: &Store, ask: &Ask) -> Result<()> {
    let told = store.deliver(ask.clone()).await?;
    let (Say::Run(fence), Some(found)) = (told.say, told.found) else { bail!("no claim") };
    let terminal = Terminal { status: Some(201), reason: None, result_id: None, has_response: true };
    let headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let response = StoredResponse { headers, body: Bytes::from_static(b"{\"id\":\"o-4711\"}") };
    let event = Event::Finish(fence, Finish::Terminal(terminal));
    store.apply(found.id, Arc::clone(&ask.policy), event, Some(response)).await?;
    Ok(())
}
