//! A turn of the sweeper: what is due, oldest first, some of it in a transaction.
//!
//! Answers expire by the database's clock, at the moment that stands in the record. Forgetting goes by the time that
//! certainly passed ([`super::passed`]): a tombstone that was deleted under a wrong clock would not come back.
//! Several hosts may sweep at the same time: each record is written by one of them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use samekey_core::claim::{Context, Event, Marks};
use samekey_core::{Policy, Timestamp};

use super::database::Database;
use super::error::Trouble;
use super::events::{self, Outcome};
use super::pool::{Link, Speak};
use crate::store::sqlite::sweep::{earliest, key_time, later};
use crate::store::{Applied, Change, Note, Policies, RecordId, Swept};

/// The most records of each half of a turn.
const MOST: i64 = 128;

/// After how long the sweeper looks again at what it could not forget and does not know when it can.
const LOOK_AGAIN: Duration = Duration::from_secs(86_400);

/// The contract of a record of another process: that its answer is over stands in the record itself.
static FOREIGN: LazyLock<Arc<Policy>> = LazyLock::new(|| Arc::new(Policy::new(crate::observe::OTHER)));

const EXPIRING: &str = "SELECT id, idem_key, operation, configured FROM idempotency_keys \
     WHERE state IN ('completed', 'failed') AND expires_at <= $1 ORDER BY expires_at LIMIT $2";

const FORGETTABLE: &str = "SELECT id, idem_key, operation, configured FROM idempotency_keys \
     WHERE state IN ('expired', 'released') AND coalesce(look_at, finished_at) <= $1 \
     ORDER BY coalesce(look_at, finished_at) LIMIT $2";

/// A record that is due.
struct Due {
    id: RecordId,
    key: String,
    policy: Option<Arc<Policy>>,
}

pub(super) async fn turn(link: &Link, policies: &Policies, db: &Database) -> Result<Swept, Trouble> {
    let now = Timestamp::from_millis(link.query_one(&db.dated.now, &[]).await?.try_get(0)?);
    db.clock_shows(now);
    let (sure, latest) = (db.passed(now), db.latest(now));
    let mut swept = Swept::default();

    let due = list(link, EXPIRING, now, policies).await?;
    swept.expired = expire(link, &due, (sure, latest), db).await?;
    swept.more = due.len() as i64 == MOST && swept.expired > 0;

    let due = list(link, FORGETTABLE, sure, policies).await?;
    swept.forgotten = forget(link, &due, (sure, latest), db).await?;
    swept.more |= due.len() as i64 == MOST;

    let row = link
        .query_one(
            "SELECT (SELECT min(expires_at) FROM idempotency_keys WHERE state IN ('completed', 'failed')), \
             (SELECT min(coalesce(look_at, finished_at)) FROM idempotency_keys WHERE state IN ('expired', 'released'))",
            &[],
        )
        .await?;
    let until = |due: Option<i64>, now: Timestamp| due.map(|due| Timestamp::from_millis(due).since(now));
    swept.next = [until(row.try_get(0)?, now), until(row.try_get(1)?, sure)].into_iter().flatten().min();
    Ok(swept)
}

async fn list(link: &Link, sql: &str, now: Timestamp, policies: &Policies) -> Result<Vec<Due>, Trouble> {
    let mut due = Vec::new();
    for row in link.query(sql, &[&now.as_millis(), &MOST]).await? {
        let policy = policies.of(row.try_get(2)?, row.try_get(3)?);
        due.push(Due { id: RecordId(row.try_get(0)?), key: row.try_get(1)?, policy });
    }
    Ok(due)
}

/// The answers go, what they came to stays. Says how many went.
async fn expire(
    link: &Link,
    due: &[Due],
    (sure, latest): (Timestamp, Timestamp),
    db: &Database,
) -> Result<usize, Trouble> {
    let changes: Vec<Change> = due
        .iter()
        .map(|due| {
            let policy = due.policy.as_ref().unwrap_or(&*FOREIGN);
            // Nothing is forgotten here: it has just ended its first life.
            let event = Event::Sweep { key_time: None, forget_limit: Timestamp::from_millis(i64::MIN) };
            change(due.id, policy, event)
        })
        .collect();
    let mut again = Vec::new();
    for (due, applied) in due.iter().zip(apply(link, &changes, None, db).await?) {
        if let Some(Applied { record: Some(record), refused: None }) = applied {
            let look_at = match &due.policy {
                Some(policy) => earliest(&record, key_time(&due.key, policy, latest), policy),
                None => sure + LOOK_AGAIN,
            };
            again.push((due.id, look_at));
        }
    }
    look_again(link, &again).await?;
    Ok(again.len())
}

/// The records go that may. Others are looked at again when they may. Says how many went.
async fn forget(
    link: &Link,
    due: &[Due],
    (now, latest): (Timestamp, Timestamp),
    db: &Database,
) -> Result<usize, Trouble> {
    let mut again = Vec::new();
    let mut known = Vec::new();
    let row = link
        .query_one(
            "SELECT (SELECT value::bigint FROM samekey_meta WHERE name = 'horizon'), \
             coalesce((SELECT array_agg(operation ORDER BY operation) FROM samekey_forgotten_before), '{}'), \
             coalesce((SELECT array_agg(mark ORDER BY operation) FROM samekey_forgotten_before), '{}')",
            &[],
        )
        .await?;
    let horizon = row.try_get::<_, Option<i64>>(0)?.map(Timestamp::from_millis);
    let (names, moments): (Vec<String>, Vec<i64>) = (row.try_get(1)?, row.try_get(2)?);
    let forgotten: HashMap<String, Timestamp> =
        names.into_iter().zip(moments.into_iter().map(Timestamp::from_millis)).collect();
    for due in due {
        let Some(policy) = &due.policy else {
            again.push((due.id, now + LOOK_AGAIN));
            continue;
        };
        let newest = std::iter::once(&*policy.operation)
            .chain(policy.aliases.iter().map(String::as_str))
            .chain([""])
            .filter_map(|name| forgotten.get(name))
            .copied()
            .max();
        let start = db.created_at - policy.remember;
        let marks = Marks { forgotten_before: newest.map_or(start, |mark| start.max(mark)), horizon };
        let context = Context { now, policy, may_judge: false, new_holder: crate::new_holder() };
        let forget_limit = marks.forget_limit(now - policy.remember, &context);
        let key_time = key_time(&due.key, policy, latest);
        known.push((due, policy, marks, key_time, change(due.id, policy, Event::Sweep { key_time, forget_limit })));
    }
    let changes: Vec<Change> = known.iter().map(|(.., change)| change.clone()).collect();
    let mut forgotten = 0;
    for ((due, policy, marks, key_time, _), applied) in
        known.into_iter().zip(apply(link, &changes, Some(now), db).await?)
    {
        match applied {
            Some(Applied { record: None, .. }) => forgotten += 1,
            Some(Applied { record: Some(record), .. }) => {
                again.push((due.id, later(&record, key_time, policy, marks, now)));
            }
            None => again.push((due.id, now + LOOK_AGAIN)),
        }
    }
    look_again(link, &again).await?;
    Ok(forgotten)
}

fn change(id: RecordId, policy: &Arc<Policy>, event: Event) -> Change {
    Change { id, policy: Arc::clone(policy), event, response: None, note: Note::default() }
}

/// A record that cannot be read is left alone; the others must not wait for it.
async fn apply(
    link: &Link,
    changes: &[Change],
    now: Option<Timestamp>,
    db: &Database,
) -> Result<Vec<Option<Applied>>, Trouble> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let changes: Vec<&Change> = changes.iter().collect();
    let outcomes = events::apply(link, &changes, now, db).await?;
    let mut told = Vec::new();
    let applied = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Applied(applied, _, moved) => {
                told.extend(moved);
                Some(*applied)
            }
            // Another transaction is about it, or it cannot be read.
            Outcome::Later | Outcome::Failed(_) => None,
        })
        .collect();
    db.tell(&told);
    Ok(applied)
}

async fn look_again(link: &Link, looks: &[(RecordId, Timestamp)]) -> Result<(), Trouble> {
    if looks.is_empty() {
        return Ok(());
    }
    let (ids, at): (Vec<i64>, Vec<i64>) = looks.iter().map(|(id, at)| (id.0, at.as_millis())).unzip();
    // What a tombstone needs not say, it does not keep.
    link.execute(
        "UPDATE idempotency_keys AS r SET look_at = w.look_at, \
         request_id = CASE WHEN r.state <> 'expired' THEN r.request_id END \
         FROM unnest($1::bigint[], $2::bigint[]) AS w(id, look_at) \
         WHERE r.id = w.id AND r.state IN ('expired', 'released')",
        &[&ids, &at],
    )
    .await?;
    Ok(())
}
