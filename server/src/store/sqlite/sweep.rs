//! A turn of the sweeper under the write lock: what is due, oldest first, until its time is up.
//!
//! Answers expire by the wall clock, at the moment that stands in the record. Forgetting goes by the time that
//! certainly passed ([`super::passed`]): a tombstone that was deleted under a wrong clock would not come back.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};
use samekey_core::claim::{Context, Event, Marks, Record};
use samekey_core::{Key, KeyTime, Policy, Timeless, Timestamp};

use super::Trouble;
use super::claims::{self, Setting};
use super::passed::Passed;
use crate::clock::Moment;
use crate::store::{Applied, Change, Note, Policies, RecordId, Swept};

/// How long a turn takes at most: a claim of the same batch waits for so long.
const TURN: Duration = Duration::from_millis(2);

/// The most records of each half of a turn, so that the lists of them are bounded too.
const MOST: usize = 128;

/// After how long the sweeper looks again at what it could not forget and does not know when it can. Each look is
/// a small write.
const LOOK_AGAIN: Duration = Duration::from_secs(86_400);

/// The contract of a record of another process: that its answer is over stands in the record itself.
static FOREIGN: LazyLock<Arc<Policy>> = LazyLock::new(|| Arc::new(Policy::new(crate::observe::OTHER)));

/// A record that is due.
struct Due {
    id: RecordId,
    key: String,
    policy: Option<Arc<Policy>>,
}

/// Says how many pages it wrote, more or less.
pub(super) fn turn(
    conn: &Connection,
    policies: &Policies,
    passed: &mut Passed,
    moment: Moment,
    setting: &mut Setting<'_>,
) -> Result<(Swept, usize), Trouble> {
    let began = Instant::now();
    let mut swept = Swept::default();
    let mut pages = 0;
    let by_wall = setting.now;
    let sure = passed.now(moment);

    // At least one of each, or nothing would ever be swept on a machine that is slow enough.
    let due = expiring(conn, by_wall, policies)?;
    let mut left = due.len() == MOST;
    let mut due = due.into_iter();
    for due in due.by_ref() {
        if expire(conn, &due, sure, setting)? {
            swept.expired += 1;
            pages += 4;
        }
        if began.elapsed() >= TURN / 2 {
            break;
        }
    }
    left |= due.len() > 0;
    swept.more = left && swept.expired > 0;

    setting.now = sure;
    let due = forgettable(conn, sure, policies)?;
    swept.more |= due.len() == MOST;
    let mut due = due.into_iter();
    for due in due.by_ref() {
        swept.forgotten += usize::from(forget(conn, &due, setting)?);
        pages += 4;
        if began.elapsed() >= TURN {
            break;
        }
    }
    swept.more |= due.len() > 0;
    setting.now = by_wall;

    passed.keep(conn, setting.created_at, moment)?;
    let soonest = |sql: &str| {
        conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, Option<i64>>(0)).optional().map(Option::flatten)
    };
    let expires = soonest("SELECT min(expires_at) FROM idempotency_keys WHERE state IN ('completed', 'failed')")?;
    let forgets = soonest(
        "SELECT min(coalesce(look_at, finished_at)) FROM idempotency_keys WHERE state IN ('expired', 'released')",
    )?;
    let until = |due: Option<i64>, now: Timestamp| due.map(|due| Timestamp::from_millis(due).since(now));
    swept.next = [until(expires, by_wall), until(forgets, sure)].into_iter().flatten().min();
    Ok((swept, pages))
}

fn expiring(conn: &Connection, now: Timestamp, policies: &Policies) -> rusqlite::Result<Vec<Due>> {
    let sql = "SELECT id, idem_key, operation, configured FROM idempotency_keys \
        WHERE state IN ('completed', 'failed') AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2";
    due(conn, sql, now, policies)
}

fn forgettable(conn: &Connection, now: Timestamp, policies: &Policies) -> rusqlite::Result<Vec<Due>> {
    let sql = "SELECT id, idem_key, operation, configured FROM idempotency_keys \
        WHERE state IN ('expired', 'released') AND coalesce(look_at, finished_at) <= ?1 \
        ORDER BY coalesce(look_at, finished_at) LIMIT ?2";
    due(conn, sql, now, policies)
}

fn due(conn: &Connection, sql: &str, now: Timestamp, policies: &Policies) -> rusqlite::Result<Vec<Due>> {
    conn.prepare_cached(sql)?
        .query_map((now.as_millis(), MOST as i64), |row| {
            let (operation, configured): (String, bool) = (row.get(2)?, row.get(3)?);
            Ok(Due { id: RecordId(row.get(0)?), key: row.get(1)?, policy: policies.of(&operation, configured) })
        })?
        .collect()
}

/// The answer goes, what it came to stays. Says whether it went.
fn expire(conn: &Connection, due: &Due, sure: Timestamp, setting: &mut Setting<'_>) -> Result<bool, Trouble> {
    let policy = due.policy.as_ref().unwrap_or(&*FOREIGN);
    // Nothing is forgotten here: it has just ended its first life.
    let event = Event::Sweep { key_time: None, forget_limit: Timestamp::from_millis(i64::MIN) };
    let Some(Applied { record: Some(record), refused: None }) = apply(conn, due, policy, event, setting)? else {
        return Ok(false);
    };
    let look_at = match &due.policy {
        Some(policy) => earliest(&record, key_time(&due.key, policy, setting.latest), policy),
        None => sure + LOOK_AGAIN,
    };
    look_again(conn, due.id, look_at)?;
    Ok(true)
}

/// The record goes, if it may. Otherwise it is looked at again when it may.
fn forget(conn: &Connection, due: &Due, setting: &mut Setting<'_>) -> Result<bool, Trouble> {
    let now = setting.now;
    let Some(policy) = &due.policy else {
        look_again(conn, due.id, now + LOOK_AGAIN)?;
        return Ok(false);
    };
    let names = std::iter::once(&*policy.operation).chain(policy.aliases.iter().map(String::as_str));
    let marks = claims::marks(conn, names, policy.remember, setting)?;
    let context = Context { now, policy, may_judge: false, new_holder: crate::new_holder() };
    let forget_limit = marks.forget_limit(now - policy.remember, &context);
    let key_time = key_time(&due.key, policy, setting.latest);
    let event = Event::Sweep { key_time, forget_limit };
    let look_at = match apply(conn, due, policy, event, setting)? {
        Some(Applied { record: None, .. }) => return Ok(true),
        Some(Applied { record: Some(record), .. }) => later(&record, key_time, policy, marks, now),
        None => now + LOOK_AGAIN,
    };
    look_again(conn, due.id, look_at)?;
    Ok(false)
}

/// A record that cannot be read is left alone; the others must not wait for it.
fn apply(
    conn: &Connection,
    due: &Due,
    policy: &Arc<Policy>,
    event: Event,
    setting: &mut Setting<'_>,
) -> Result<Option<Applied>, Trouble> {
    let change = Change { id: due.id, policy: Arc::clone(policy), event, response: None, note: Note::default() };
    match claims::apply(conn, &change, setting) {
        Ok((applied, _)) => Ok(Some(applied)),
        Err(Trouble::Item(error)) => {
            tracing::debug!(event = "sweep", record = due.id.0, %error, "left alone");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// As a delivery believes it.
pub(in crate::store) fn key_time(key: &str, policy: &Policy, latest: Timestamp) -> Option<Timestamp> {
    match policy.key_time {
        KeyTime::Carried => key.parse::<Key>().ok()?.time(latest, policy.clock_skew),
        KeyTime::None => None,
    }
}

/// The moment at which core would let it go, but for what the store remembers.
pub(in crate::store) fn earliest(record: &Record, key_time: Option<Timestamp>, policy: &Policy) -> Timestamp {
    let ended = record.finished_at.unwrap_or(record.created_at);
    key_time.map_or(ended, |time| ended.max(time)) + policy.remember
}

/// When to look again at what could not be forgotten now.
pub(in crate::store) fn later(
    record: &Record,
    key_time: Option<Timestamp>,
    policy: &Policy,
    marks: Marks,
    now: Timestamp,
) -> Timestamp {
    let kept = key_time.is_none() && policy.timeless == Timeless::Keep;
    let held = marks.horizon.map(|horizon| horizon + policy.remember).filter(|until| *until > now);
    let due = match (kept, held) {
        // Another configuration may let it go one day.
        (true, _) => now + policy.remember,
        (false, Some(held)) => held.max(earliest(record, key_time, policy)),
        (false, None) => earliest(record, key_time, policy),
    };
    if due > now { due } else { now + LOOK_AGAIN }
}

fn look_again(conn: &Connection, id: RecordId, at: Timestamp) -> rusqlite::Result<()> {
    // What a tombstone needs not say, it does not keep.
    conn.prepare_cached(
        "UPDATE idempotency_keys SET look_at = ?2, request_id = CASE WHEN state <> 'expired' THEN request_id END \
         WHERE id = ?1",
    )?
    .execute((id.0, at.as_millis()))
    .map(drop)
}
