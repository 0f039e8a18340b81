//! Events meet their records: many in one transaction, of two round trips. Rows are locked in the order of their
//! ids, and their locks waited for, so that no two transactions wait for each other.

use std::collections::{HashMap, HashSet};
use std::sync::MutexGuard;

use futures_util::future::try_join;
use samekey_core::claim::{self, Context, Event, Record, State, Write};
use samekey_core::{Key, Timestamp};
use tokio_postgres::types::ToSql;

use super::claims::new_holder;
use super::database::Database;
use super::error::Trouble;
use super::pool::{Link, Speak};
use super::queue::Applying;
use super::row::{self, Updates};
use super::{effects, sql, trail};
use crate::store::sqlite::claims::as_stored;
use crate::store::sqlite::moved::{Moved, Whose};
use crate::store::sqlite::row::signed;
use crate::store::{Applied, By, Change, Note, RecordId, Step, StoreError};

/// What an event of a batch came to, before COMMIT.
#[derive(Debug)]
pub(super) enum Outcome {
    /// This, whose record was written, and what to tell of it.
    Applied(Box<Applied>, Option<(String, String)>, Option<Moved>),
    /// The record is another transaction's, or was written in this one: again in a moment.
    Later,
    Failed(StoreError),
}

/// A record that an event is about.
struct Loaded {
    record: Record,
    actor: String,
    key: String,
    operation: String,
    configured: bool,
}

fn load_text() -> String {
    format!(
        "SELECT {}, actor_id, idem_key FROM idempotency_keys \
         WHERE id = ANY($1) ORDER BY id FOR UPDATE",
        row::COLUMNS
    )
}

/// Begins, locks and reads, then asks the time: a lock may have been waited for.
async fn load(
    link: &Link,
    ids: &[i64],
    db: &Database,
) -> Result<(HashMap<RecordId, Result<Loaded, StoreError>>, Timestamp), Trouble> {
    let text = load_text();
    for text in [&text, &db.dated.now] {
        link.prepare_cached(text).await?;
    }
    let values: [&(dyn ToSql + Sync); 1] = [&ids];
    let rows = try_join(link.batch_execute("BEGIN"), link.query(&text, &values));
    let ((_, rows), now) = try_join(rows, link.query_one(&db.dated.now, &[])).await?;
    let mut loaded = HashMap::with_capacity(rows.len());
    for row in &rows {
        let at = row::COLUMN_COUNT;
        let read = match row::read(row, 0) {
            Ok(found) => Ok(Loaded {
                record: found.record,
                actor: row.try_get(at)?,
                key: row.try_get(at + 1)?,
                operation: found.operation,
                configured: found.configured,
            }),
            Err(Trouble::Item(error)) => Err(error),
            Err(trouble) => return Err(trouble),
        };
        loaded.insert(RecordId(row.try_get(0)?), read);
    }
    let now = Timestamp::from_millis(now.try_get(0)?);
    db.clock_shows(now);
    Ok((loaded, now))
}

/// Begins, and loads one record for a write.
pub(super) async fn load_one(link: &Link, id: RecordId, db: &Database) -> Result<(Option<Record>, Timestamp), Trouble> {
    let (mut loaded, now) = load(link, &[id.0], db).await?;
    match loaded.remove(&id) {
        None => Ok((None, now)),
        Some(Ok(loaded)) => Ok((Some(loaded.record), now)),
        Some(Err(error)) => Err(Trouble::Item(error)),
    }
}

/// What follows a record's write.
struct Written<'a> {
    id: RecordId,
    before: &'a Record,
    after: Record,
    closes: bool,
    by: By,
    note: &'a Note,
}

/// A batch of queued events. Each notes what is written of it: if the connection is lost under COMMIT and that stands
/// there later, it was committed.
pub(super) async fn apply_queued(link: &Link, items: &[Box<Applying>], db: &Database) -> Result<Vec<Outcome>, Trouble> {
    let changes: Vec<&Change> = items.iter().map(|item| &item.change).collect();
    apply_noting(link, &changes, None, db, |item| Some(items[item].doubt())).await
}

/// A batch of events, at another time than the clock shows if one is given.
pub(super) async fn apply(
    link: &Link,
    changes: &[&Change],
    at: Option<Timestamp>,
    db: &Database,
) -> Result<Vec<Outcome>, Trouble> {
    apply_noting(link, changes, at, db, |_| None).await
}

async fn apply_noting<'d>(
    link: &Link,
    changes: &[&Change],
    at: Option<Timestamp>,
    db: &Database,
    doubt: impl Fn(usize) -> Option<MutexGuard<'d, Option<Record>>> + Send,
) -> Result<Vec<Outcome>, Trouble> {
    let mut ids: Vec<i64> = changes.iter().map(|change| change.id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let (loaded, shown) = load(link, &ids, db).await?;
    let now = at.unwrap_or(shown);
    let mut touched: HashSet<RecordId> = HashSet::new();
    let (mut updates, mut written) = (Updates::default(), Vec::new());
    let mut outcomes = Vec::with_capacity(changes.len());
    for (item, change) in changes.iter().copied().enumerate() {
        let id = change.id;
        let Loaded { record, actor, key, operation, configured } = match loaded.get(&id) {
            _ if touched.contains(&id) => {
                outcomes.push(Outcome::Later);
                continue;
            }
            None => {
                outcomes.push(Outcome::Applied(Box::new(Applied { record: None, refused: None }), None, None));
                continue;
            }
            Some(Err(error)) => {
                outcomes.push(Outcome::Failed(error.clone()));
                continue;
            }
            Some(Ok(loaded)) => loaded,
        };
        let scope = (actor.clone(), key.clone());
        if doubt(item).is_some_and(|written| written.as_ref() == Some(record)) {
            let applied = Applied { record: Some(record.clone()), refused: None };
            outcomes.push(Outcome::Applied(Box::new(applied), Some(scope), None));
            continue;
        }
        let context = Context {
            now,
            policy: &change.policy,
            may_judge: db.may_judge_record(&change.policy, id, record, now),
            new_holder: match new_holder(db) {
                Ok(holder) => holder,
                Err(error) => {
                    outcomes.push(Outcome::Failed(error));
                    continue;
                }
            },
        };
        let event = as_stored(&change.event, change.response.as_ref());
        let (applied, scope) = match claim::transition(record, &event, &context) {
            Ok(Write::Nothing) => (Applied { record: Some(record.clone()), refused: None }, None),
            Err(refused) => (Applied { record: Some(record.clone()), refused: Some(refused) }, None),
            Ok(Write::Update(after)) => {
                (wrote(change, record, after, false, &event, &mut updates, &mut written), Some(scope))
            }
            Ok(Write::UpdateAndCloseEffects(after)) => {
                (wrote(change, record, after, true, &event, &mut updates, &mut written), Some(scope))
            }
            Ok(Write::Delete { mark }) => {
                if !delete(
                    link,
                    id,
                    record,
                    &scope,
                    mark.map(|mark| (if *configured { operation.as_str() } else { "" }, mark)),
                )
                .await?
                {
                    outcomes.push(Outcome::Later);
                    continue;
                }
                touched.insert(id);
                (Applied { record: None, refused: None }, Some(scope))
            }
        };
        if scope.is_some() {
            touched.insert(id);
            if let Some(mut written) = doubt(item) {
                written.clone_from(&applied.record);
            }
        }
        let whose = Whose { id, operation, configured: *configured, policy: &change.policy, key };
        let moved =
            scope.is_some().then(|| Moved::new(whose, (Some(record), applied.record.as_ref()), By::event(&event), now));
        let moved = moved.flatten().map(|moved| Moved { who: change.note.who.clone(), ..moved });
        outcomes.push(Outcome::Applied(Box::new(applied), scope, moved));
    }
    write(link, &updates, &written, now).await?;
    Ok(outcomes)
}

fn wrote<'a>(
    change: &'a Change,
    before: &'a Record,
    after: Record,
    closes: bool,
    event: &Event,
    updates: &mut Updates<'a>,
    written: &mut Vec<Written<'a>>,
) -> Applied {
    updates.push(change.id, before.revision, &after, change.response.as_ref());
    let record = after.clone();
    written.push(Written { id: change.id, before, after, closes, by: By::event(event), note: &change.note });
    Applied { record: Some(record), refused: None }
}

/// The rows are locked, so each is still what was read. Where there is nothing but records to write, COMMIT goes
/// along.
async fn write(link: &Link, updates: &Updates<'_>, written: &[Written<'_>], now: Timestamp) -> Result<(), Trouble> {
    if updates.len() == 0 {
        return Ok(link.batch_execute("COMMIT").await?);
    }
    let is_plain = |one: &Written<'_>| {
        let forgets = one.after.state == State::Expired && !one.after.effects.none();
        !one.closes && !forgets && !Step::is_one(Some(one.before), &one.after, one.by)
    };
    if written.iter().all(is_plain) {
        link.prepare_cached(row::UPDATE).await?;
        let parameters = updates.parameters();
        try_join(link.query(row::UPDATE, &parameters), link.batch_execute("COMMIT")).await?;
        return Ok(());
    }
    updates.write(link).await?;
    for Written { id, before, after, closes, by, note } in written {
        if *closes {
            effects::close(link, *id, now).await?;
        }
        if after.state == State::Expired && !after.effects.none() {
            effects::forget(link, *id).await?;
        }
        trail::add(link, *id, (Some(before), after), *by, Some(note), now).await?;
    }
    Ok(link.batch_execute("COMMIT").await?)
}

/// Forgets a record under the locks of its key, with the move of the mark. `false`: another transaction is about it.
async fn delete(
    link: &Link,
    id: RecordId,
    record: &Record,
    (actor, key): &(String, String),
    mark: Option<(&str, Timestamp)>,
) -> Result<bool, Trouble> {
    let locks: Vec<i64> = match key.parse::<Key>() {
        Ok(key) => sql::locks_of(actor, &key),
        Err(_) => vec![sql::key_lock(actor, key), sql::fence_lock(key)],
    };
    for lock in locks {
        if !link.query_one("SELECT pg_try_advisory_xact_lock($1)", &[&lock]).await?.try_get::<_, bool>(0)? {
            return Ok(false);
        }
    }
    let delete = "DELETE FROM idempotency_keys WHERE id = $1 AND revision = $2";
    if link.execute(delete, &[&id.0, &signed(record.revision)]).await? == 0 {
        return Ok(false);
    }
    effects::forget(link, id).await?;
    trail::forget(link, id).await?;
    if let Some((name, mark)) = mark {
        link.execute(
            "INSERT INTO samekey_forgotten_before AS f (operation, mark) VALUES ($1, $2) \
             ON CONFLICT (operation) DO UPDATE SET mark = greatest(f.mark, excluded.mark)",
            &[&name, &mark.as_millis()],
        )
        .await?;
    }
    Ok(true)
}
