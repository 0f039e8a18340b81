//! Erasing an actor: what is stored of them goes, that their keys were used stays, under a keyed hash of the actor's id.
//!
//! The server's own vacuum frees what was deleted; its WAL and its backups keep it until they are gone.

use samekey_core::claim::Event;
use samekey_core::{Actor, Policy, Timestamp};
use std::sync::Arc;
use std::time::Duration;

use super::database::Database;
use super::error::Trouble;
use super::events;
use super::pool::{Link, Speak};
use crate::store::sqlite::erase::pseudonym;
use crate::store::{Change, Erased, Note, RecordId, StoreError};

/// Records of one transaction.
const BATCH: usize = 64;

/// Records of one look: no index begins with the actor, so all are looked at.
const LOOK: i64 = 4096;

pub(super) async fn erase(db: &Database, actor: &Actor) -> Result<Erased, StoreError> {
    let secret = db.read(|link| async move { make_secret(&link).await }).await?;
    db.set_erased(Some(&secret));
    let name = &pseudonym(&secret, actor);
    let mut erased = Erased::default();
    let mut last = 0;
    loop {
        let (ids, end) = db.read(|link| async move { records(&link, actor, last).await }).await?;
        for batch in ids.chunks(BATCH) {
            let gone = db.read(|link| async move { some(&link, batch, actor, name, db).await }).await?;
            erased.records += gone;
            erased.running += batch.len() - gone;
        }
        let Some(end) = end else { return Ok(erased) };
        last = end;
    }
}

/// Committed before the first record has a pseudonym, so that every process looks for them.
async fn make_secret(link: &Link) -> Result<[u8; 32], Trouble> {
    let mut fresh = [0; 32];
    crate::random(&mut fresh);
    let fresh = crate::hex(&fresh);
    link.execute("INSERT INTO samekey_meta VALUES ('erased', $1) ON CONFLICT DO NOTHING", &[&fresh]).await?;
    let row = link.query_one("SELECT decode(value, 'hex') FROM samekey_meta WHERE name = 'erased'", &[]).await?;
    row.try_get::<_, &[u8]>(0)?
        .try_into()
        .map_err(|_| Trouble::Item(StoreError::unreadable("the secret of erased actors is damaged")))
}

/// The actor's records after this one, and where to go on.
async fn records(link: &Link, actor: &Actor, after: i64) -> Result<(Vec<i64>, Option<i64>), Trouble> {
    let end = "SELECT max(id) FROM (SELECT id FROM idempotency_keys WHERE id > $1 ORDER BY id LIMIT $2) AS some";
    let Some(end) = link.query_one(end, &[&after, &LOOK]).await?.try_get::<_, Option<i64>>(0)? else {
        return Ok((Vec::new(), None));
    };
    let ids = "SELECT id FROM idempotency_keys WHERE id > $1 AND id <= $2 AND actor_id = $3 ORDER BY id";
    let rows = link.query(ids, &[&after, &end, &actor.stored()]).await?;
    Ok((rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?, Some(end)))
}

/// Says how many were erased; the others still run, and their callers wait for the answer.
async fn some(link: &Link, ids: &[i64], actor: &Actor, name: &str, db: &Database) -> Result<usize, Trouble> {
    // The answers are over now; what becomes of a record whose answer is over, core knows.
    link.execute(
        &format!(
            "UPDATE idempotency_keys SET expires_at = least(expires_at, ({})) \
             WHERE id = ANY($1) AND state IN ('completed', 'failed')",
            db.dated.now
        ),
        &[&ids],
    )
    .await?;
    // Nothing is forgotten here: that the key was used is what stays.
    let policy = Arc::new(Policy::new("erased").remember(Duration::MAX));
    let event = Event::Sweep { key_time: None, forget_limit: Timestamp::from_millis(i64::MIN) };
    let changes: Vec<Change> = ids
        .iter()
        .map(|id| Change {
            id: RecordId(*id),
            policy: Arc::clone(&policy),
            event: event.clone(),
            response: None,
            note: Note::default(),
        })
        .collect();
    events::apply(link, &changes.iter().collect::<Vec<_>>(), None, db).await?;
    // Somebody else may have claimed one meanwhile, or erased it.
    let written = link
        .query(
            "UPDATE idempotency_keys SET actor_id = $2, result_id = NULL, request_id = NULL, revision = revision + 1, \
             response_headers = NULL, response_body = NULL \
             WHERE id = ANY($1) AND actor_id = $3 AND state <> 'in_progress' RETURNING id",
            &[&ids, &name, &actor.stored()],
        )
        .await?;
    let gone: Vec<i64> = written.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    link.execute("UPDATE idempotency_trail SET why = NULL, request_id = NULL WHERE record = ANY($1)", &[&gone]).await?;
    Ok(gone.len())
}
