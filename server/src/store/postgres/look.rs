//! The first round trip of a batch of deliveries: it locks and looks. Why in this order, [`super::claims`] says.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures_util::future::try_join;
use samekey_core::{Actor, Timestamp};
use tokio_postgres::types::ToSql;

use super::claims::{Meeting, is_fenced};
use super::database::Database;
use super::error::Trouble;
use super::pool::{Link, Speak};
use super::{row, sql};
use crate::store::sqlite::claims::names;
use crate::store::sqlite::erase::pseudonym;
use crate::store::{Found, StoreError};

/// The horizon moves only while nobody holds its lock.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock_shared($2), count(pg_advisory_xact_lock(id)) FROM unnest($1::bigint[]) AS id";
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock(id) FROM unnest($1::bigint[]) AS id";

/// A limit for each actor, because an actor may have many; in the order of the parameters.
const COUNT: &str = "SELECT (SELECT count(*) FROM (SELECT 1 FROM idempotency_keys AS r \
     WHERE r.actor_id = t.actor_id AND r.state = 'in_progress' LIMIT t.quota) AS counted) \
     FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS t(actor_id, quota, n) ORDER BY n";

const KNOWN_TO_ANOTHER: &str = "SELECT DISTINCT t.n FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) \
     AS t(n, idem_key, actor_id, operation) WHERE EXISTS (SELECT 1 FROM idempotency_keys AS r \
     WHERE r.idem_key = t.idem_key AND r.operation = t.operation AND r.actor_id <> t.actor_id)";

pub(super) fn memory_text(clock: &str) -> String {
    format!(
        "SELECT {clock}, (SELECT value::bigint FROM samekey_meta WHERE name = 'horizon'), \
         coalesce((SELECT array_agg(operation ORDER BY operation) FROM samekey_forgotten_before \
         WHERE operation = ANY($1)), '{{}}'), \
         coalesce((SELECT array_agg(mark ORDER BY operation) FROM samekey_forgotten_before \
         WHERE operation = ANY($1)), '{{}}'), \
         (SELECT decode(value, 'hex') FROM samekey_meta WHERE name = 'erased')"
    )
}

fn look_text() -> String {
    let columns: Vec<String> = row::COLUMNS.split(", ").map(|column| format!("r.{}", column.trim())).collect();
    format!(
        "SELECT t.n, {} FROM unnest($1::bigint[], $2::text[], $3::text[]) AS t(n, idem_key, actor_id) \
         JOIN idempotency_keys AS r ON r.idem_key = t.idem_key AND r.actor_id = t.actor_id ORDER BY r.id",
        columns.join(", ")
    )
}

/// What the first round trip saw.
pub(super) struct Look {
    pub(super) now: Timestamp,
    pub(super) horizon: Option<Timestamp>,
    pub(super) marks: HashMap<String, Timestamp>,
    /// For each delivery, whether its key is ours to decide about.
    pub(super) ours: Vec<bool>,
    /// For each delivery, the records of its key and actor under all names.
    pub(super) found: Vec<Result<Vec<Found>, StoreError>>,
    pub(super) in_progress: HashMap<Actor, i64>,
    pub(super) known_to_another: HashSet<usize>,
}

/// Locks and looks, all under way at once: the server works them off in their order.
pub(super) async fn look(link: &Link, items: &[&Meeting], db: &Database) -> Result<Look, Trouble> {
    let mut quotas: BTreeMap<i64, (&Actor, i64)> = BTreeMap::new();
    let erased = db.erased();
    let (mut asked_by, mut keys, mut actors, mut key_locks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut fence: (Vec<i64>, Vec<&str>, Vec<&str>, Vec<&str>) = Default::default();
    let mut marked: BTreeSet<&str> = [""].into();
    for (item, meeting) in items.iter().enumerate() {
        let ask = &meeting.ask;
        let quota = quotas.entry(sql::quota_lock(&ask.actor)).or_insert((&ask.actor, 0));
        quota.1 = quota.1.max(ask.policy.quota.into());
        asked_by.push(item as i64);
        keys.push(ask.key.expose());
        actors.push(ask.actor.stored().to_owned());
        if let Some(secret) = &erased {
            asked_by.push(item as i64);
            keys.push(ask.key.expose());
            actors.push(pseudonym(secret, &ask.actor));
        }
        key_locks.push(sql::key_lock(ask.actor.stored(), ask.key.expose()));
        marked.extend(names(ask));
        if is_fenced(ask) {
            for name in names(ask) {
                fence.0.push(item as i64);
                fence.1.push(ask.key.expose());
                fence.2.push(ask.actor.stored());
                fence.3.push(name);
            }
        }
    }
    // Those with a fence take both locks of their key: others know only the narrower one.
    let fences: Vec<usize> = (0..items.len()).filter(|item| is_fenced(&items[*item].ask)).collect();
    key_locks.extend(fences.iter().map(|item| sql::fence_lock(items[*item].ask.key.expose())));
    let quota_locks: Vec<i64> = quotas.keys().copied().collect();
    let (counted, limits): (Vec<&str>, Vec<i64>) =
        quotas.values().map(|(actor, quota)| (actor.stored(), *quota)).unzip();
    let marked: Vec<&str> = marked.into_iter().collect();
    let look_text = look_text();

    // Prepared first: what waits for the preparation of another statement would not go out in this order.
    for text in [LOCK, TRY_LOCK, &db.dated.memory, &look_text, COUNT, KNOWN_TO_ANOTHER] {
        link.prepare_cached(text).await?;
    }
    let (fenced, fence_keys, fence_actors, fence_names) = &fence;
    let looks: [&[&(dyn ToSql + Sync)]; 6] = [
        &[&quota_locks, &sql::HORIZON_LOCK],
        &[&key_locks],
        &[&marked],
        &[&asked_by, &keys, &actors],
        &[&counted, &limits],
        &[fenced, fence_keys, fence_actors, fence_names],
    ];
    let [locks, tries, memory, found, counts, others] = looks;
    let others = async { if fenced.is_empty() { Ok(Vec::new()) } else { link.query(KNOWN_TO_ANOTHER, others).await } };
    let locks = try_join(link.batch_execute("BEGIN"), link.query(LOCK, locks));
    let tries = try_join(locks, link.query(TRY_LOCK, tries));
    let found = try_join(tries, link.query(&look_text, found));
    let memory = try_join(found, link.query_one(&db.dated.memory, memory));
    let counts = try_join(memory, link.query(COUNT, counts));
    let (((((_, tries), found), memory), counts), others) = try_join(counts, others).await?;

    let locked: Vec<bool> = tries.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let mut ours: Vec<bool> = locked[..items.len()].to_vec();
    for (fence, item) in fences.iter().enumerate() {
        ours[*item] &= locked[items.len() + fence];
    }
    let kept: Option<&[u8]> = memory.try_get(4)?;
    if kept != erased.as_ref().map(|secret| &secret[..]) {
        // The first actor was erased since this process last looked: their records have to be looked for as well.
        db.set_erased(kept);
        ours.fill(false);
    }
    let operations: Vec<String> = memory.try_get(2)?;
    let marks: Vec<i64> = memory.try_get(3)?;
    let mut records: Vec<Result<Vec<Found>, StoreError>> = items.iter().map(|_| Ok(Vec::new())).collect();
    for row in &found {
        let item = row.try_get::<_, i64>(0)? as usize;
        match (row::read(row, 1), &mut records[item]) {
            (Ok(found), Ok(records)) => records.push(found),
            (Err(Trouble::Item(error)), records) => *records = Err(error),
            (Err(trouble), _) => return Err(trouble),
            (Ok(_), Err(_)) => {}
        }
    }
    let mut in_progress = HashMap::new();
    for ((actor, _), row) in quotas.values().zip(&counts) {
        in_progress.insert((*actor).clone(), row.try_get(0)?);
    }
    let known_to_another =
        others.iter().map(|row| row.try_get::<_, i64>(0).map(|item| item as usize)).collect::<Result<_, _>>()?;
    Ok(Look {
        now: Timestamp::from_millis(memory.try_get(0)?),
        horizon: memory.try_get::<_, Option<i64>>(1)?.map(Timestamp::from_millis),
        marks: operations.into_iter().zip(marks.into_iter().map(Timestamp::from_millis)).collect(),
        ours,
        found: records,
        in_progress,
        known_to_another,
    })
}
