//! Deliveries meet their records: many in one transaction, of two round trips.
//!
//! The first takes the locks and looks; core decides; the second writes and commits. No look is made before its
//! lock is held, because a READ COMMITTED statement sees what was committed before it began:
//! 1. the locks of the actors, in order, and waiting: who counts an actor's keys in progress is alone with them.
//!    Their holder waits for nothing but row locks of its own records, so no two wait for each other;
//! 2. the locks of the keys, without waiting. A key that another transaction is about is put back and tried again in
//!    a moment, so that it holds up nobody else's;
//! 3. the records of each key and actor; 4. time, horizon and marks; 5. the counts; 6. who else knows the key.
//!
//! Whoever forgets a key moves the mark over it in that transaction: so a record that is not there any more (3) left the
//! mark at or beyond its key (4, looked at afterwards), and by the key's lock, which the forgetter needs too, it does
//! not go between the two looks and the commit. A mark that moves over *another* key meanwhile does not matter: this
//! claim then came before it. The horizon moves only while nobody holds its lock, of which each batch has a share.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures_util::future::try_join;
use samekey_core::Timestamp;
use samekey_core::claim::{Context, Gate, Holder, Marks, Say, Verdict};
use samekey_core::problem::Code;
use samekey_core::select::{Profile, ProfileId};
use tokio_postgres::types::ToSql;

use super::database::Database;
use super::error::Trouble;
use super::look::{Look, look};
use super::pool::{Link, Speak};
use super::row::{self, Inserts, Place, Updates};
use super::{named, trail};
use crate::store::sqlite::claims::{Stand, decide, names, unused_marks, whose};
use crate::store::sqlite::erase::pseudonym;
use crate::store::sqlite::moved::Moved;
use crate::store::{Ask, By, Found, Purpose, RecordId, StoreError, Told};

/// A delivery, or a key to close.
#[derive(Debug)]
pub(in crate::store) struct Meeting {
    pub(super) ask: Ask,
    pub(super) purpose: Purpose,
    /// Half the queue was full when this came.
    pub(super) crowded: bool,
}

/// What a delivery of a batch came to, before COMMIT.
#[derive(Debug)]
pub(super) enum Met {
    /// This, whether a record that was there before changed, and what to tell of it.
    Told(Box<Told>, bool, Option<Moved>),
    /// Another transaction is about this key: again in a moment.
    Later,
    Failed(StoreError),
}

/// The record under any of the names, its response, and the time, in one look.
pub(super) fn peek_text(clock: &str) -> String {
    format!(
        "SELECT {clock}, {}, response_headers, \
         CASE WHEN state IN ('completed', 'failed', 'expired') THEN response_body END \
         FROM idempotency_keys WHERE idem_key = $1 AND actor_id = $2 AND operation = ANY($3) \
         ORDER BY state = 'released', operation <> $4, id LIMIT 1",
        row::COLUMNS
    )
}

/// What a delivery is told without a turn under the locks, if nothing is to be written.
pub(super) async fn peek(link: &Link, ask: &Ask, db: &Database) -> Result<Option<Told>, Trouble> {
    let names: Vec<&str> = names(ask).collect();
    let values: [&(dyn ToSql + Sync); 4] = [&ask.key.expose(), &ask.actor.stored(), &names, &&*ask.operation];
    let Some(row) = link.query_opt(&db.dated.peek, &values).await? else { return Ok(None) };
    let now = Timestamp::from_millis(row.try_get(0)?);
    db.clock_shows(now);
    let found = row::read(&row, 1)?;
    let may_judge = db.may_judge_record(&ask.policy, found.id, &found.record, now);
    // Without a record nothing is claimed here, and every row with one takes its holder from the delivery.
    let stand = Stand { gate: Gate::Open, marks: unused_marks(), latest: now };
    let context = Context { now, policy: &ask.policy, may_judge, new_holder: ask.holder };
    match decide(ask, Purpose::Run, Some(&found.record), stand, &context) {
        Verdict { write: Some(_), .. } | Verdict { say: Say::Run(_), .. } => Ok(None),
        Verdict { write: None, say } => {
            let response = match say {
                Say::Replay | Say::Refuse(Code::ResponseNotStored) => {
                    row::response_of(&row, 1 + row::COLUMN_COUNT, found.id)?
                }
                _ => None,
            };
            let profile = profile_of(link, say).await?;
            Ok(Some(Told { say, found: Some(found), response, profile, now }))
        }
    }
}

/// The record of the key under any of the operation's names, also if its actor was erased.
pub(super) async fn look_up(link: &impl Speak, ask: &Ask) -> Result<Option<Found>, Trouble> {
    if let Some(found) = look_up_as(link, ask, ask.actor.stored()).await? {
        return Ok(Some(found));
    }
    let kept = link.query_opt("SELECT decode(value, 'hex') FROM samekey_meta WHERE name = 'erased'", &[]).await?;
    let Some(kept) = kept else { return Ok(None) };
    match kept.try_get::<_, &[u8]>(0)?.try_into() {
        Ok(secret) => look_up_as(link, ask, &pseudonym(&secret, &ask.actor)).await,
        Err(_) => Err(Trouble::Item(StoreError::unreadable("the secret of erased actors is damaged"))),
    }
}

async fn look_up_as(link: &impl Speak, ask: &Ask, actor: &str) -> Result<Option<Found>, Trouble> {
    let sql = format!(
        "SELECT {} FROM idempotency_keys WHERE idem_key = $1 AND actor_id = $2 AND operation = ANY($3) \
         ORDER BY state = 'released', operation <> $4, id LIMIT 1",
        row::COLUMNS
    );
    let names: Vec<&str> = names(ask).collect();
    let row = link.query_opt(&sql, &[&ask.key.expose(), &actor, &names, &&*ask.operation]).await?;
    row.map(|row| row::read(&row, 0)).transpose()
}

/// A record by its name.
pub(super) async fn by_id(link: &Link, id: RecordId) -> Result<Option<Found>, Trouble> {
    let sql = format!("SELECT {} FROM idempotency_keys WHERE id = $1", row::COLUMNS);
    link.query_opt(&sql, &[&id.0]).await?.map(|row| row::read(&row, 0)).transpose()
}

/// Writes that are made one by one: seldom.
struct Change {
    item: usize,
    seen: Found,
    written: samekey_core::claim::Record,
    runs: bool,
}

/// A batch of deliveries. On an error, nothing was written, unless the connection was lost under COMMIT.
pub(super) async fn meet(link: &Link, items: &[&Meeting], db: &Database) -> Result<Vec<Met>, Trouble> {
    let mut look = look(link, items, db).await?;
    db.clock_shows(look.now);
    let mut met: Vec<Option<Met>> = items.iter().map(|_| None).collect();
    let mut told: Vec<Option<Told>> = items.iter().map(|_| None).collect();
    let mut changes: Vec<Change> = Vec::new();
    let mut inserts = Inserts::default();
    let mut inserted: Vec<(usize, samekey_core::claim::Record)> = Vec::new();
    // What was written in this batch, the next delivery of the key has to read.
    let mut written: HashSet<(&str, &str)> = HashSet::new();
    for (item, meeting) in items.iter().enumerate() {
        let ask = &meeting.ask;
        let scope = (ask.actor.stored(), ask.key.expose());
        let fenced = is_fenced(ask) && items[..item].iter().any(|other| other.ask.key == ask.key);
        if !look.ours[item] || written.contains(&scope) || fenced {
            met[item] = Some(Met::Later);
            continue;
        }
        let decided = match decide_one(item, meeting, &look, db) {
            Ok(decided) => decided,
            Err(error) => {
                met[item] = Some(Met::Failed(error));
                continue;
            }
        };
        let (Verdict { write, say }, found) = decided;
        if matches!(say, Say::Run(_))
            && let Some(counted) = look.in_progress.get_mut(&ask.actor)
        {
            *counted += 1;
        }
        told[item] = Some(Told { say, found: None, response: None, profile: None, now: look.now });
        match (write, found) {
            (None, found) => {
                if let Some(told) = &mut told[item] {
                    told.found = found;
                }
            }
            (Some(record), None) => {
                let place = Place {
                    actor: &ask.actor,
                    operation: &ask.operation,
                    key: &ask.key,
                    configured: ask.configured,
                    request_id: ask.request_id.as_deref(),
                };
                inserts.push(place, &record);
                inserted.push((item, record));
                written.insert(scope);
            }
            (Some(record), Some(seen)) => {
                changes.push(Change { item, seen, written: record, runs: matches!(say, Say::Run(_)) });
                written.insert(scope);
            }
        }
    }
    let kept = keep_profiles(link, items, &inserted, db).await?;
    if let Some((item, error)) = kept.refused.into_iter().next() {
        // Two lists under one name: the batch is undone, and this one alone hears of it.
        if items.len() > 1 {
            return Err(Trouble::Item(error));
        }
        met[item] = Some(Met::Failed(error));
        link.batch_execute("ROLLBACK").await?;
        return Ok(met.into_iter().map(|met| met.unwrap_or(Met::Later)).collect());
    }
    let mut changed = HashSet::new();
    for change in &changes {
        if write_change(link, change, &items[change.item].ask, look.now).await? {
            changed.insert(change.item);
            if let Some(told) = &mut told[change.item] {
                told.found = Some(Found { record: change.written.clone(), ..change.seen.clone() });
            }
        } else {
            met[change.item] = Some(Met::Later);
        }
    }
    let fresh: HashSet<usize> = inserted.iter().map(|(item, _)| *item).collect();
    commit(link, items, &inserts, inserted, look.now, &mut told, &mut met).await?;
    for profile in kept.stored {
        db.keep(&profile);
    }
    let mut outcomes = Vec::with_capacity(items.len());
    for (item, (met, told)) in met.into_iter().zip(told).enumerate() {
        outcomes.push(match (met, told) {
            (Some(met), _) => met,
            (None, Some(told)) => {
                let moved = moved(&items[item].ask, &told, &changes, item, &fresh);
                Met::Told(Box::new(told), changed.contains(&item), moved)
            }
            (None, None) => Met::Later,
        });
    }
    complete(link, outcomes).await
}

/// What metrics and log hear of a delivery's write.
fn moved(ask: &Ask, told: &Told, changes: &[Change], item: usize, fresh: &HashSet<usize>) -> Option<Moved> {
    let found = told.found.as_ref()?;
    let before = changes.iter().find(|change| change.item == item).map(|change| &change.seen.record);
    if before.is_none() && !fresh.contains(&item) {
        return None;
    }
    Moved::new(whose(ask, found), (before, Some(&found.record)), By::delivery(&found.record), told.now)
}

pub(super) fn is_fenced(ask: &Ask) -> bool {
    ask.fence_credentials && ask.key.contains_uuid_or_ulid()
}

fn decide_one(
    item: usize,
    meeting: &Meeting,
    look: &Look,
    db: &Database,
) -> Result<(Verdict, Option<Found>), StoreError> {
    let Meeting { ask, purpose, crowded } = meeting;
    let records = look.found[item].as_ref().map_err(Clone::clone)?;
    let named: BTreeSet<&str> = names(ask).collect();
    // Where an older configuration let it come to two, one that may not run again answers for both.
    let found = records
        .iter()
        .filter(|found| named.contains(&*found.operation))
        .min_by_key(|found| {
            let released = found.record.state == samekey_core::claim::State::Released;
            (released, found.operation != ask.operation, found.id)
        })
        .cloned();
    let (gate, marks) = match &found {
        Some(_) => (Gate::Open, unused_marks()),
        None => {
            named::refuse_foreign(ask, records)?;
            (gate(item, ask, *crowded, look), marks(ask, look, db))
        }
    };
    let may_judge = match &found {
        Some(found) => db.may_judge_record(&ask.policy, found.id, &found.record, look.now),
        None => db.may_judge(ask.policy.lease),
    };
    let context = Context { now: look.now, policy: &ask.policy, may_judge, new_holder: new_holder(db)? };
    let stand = Stand { gate, marks, latest: db.latest(look.now) };
    Ok((decide(ask, *purpose, found.as_ref().map(|found| &found.record), stand, &context), found))
}

/// What stands before a new claim. The fence comes first: it says more than that the server is busy.
fn gate(item: usize, ask: &Ask, crowded: bool, look: &Look) -> Gate {
    if look.known_to_another.contains(&item) {
        return Gate::ActorChanged;
    }
    if crowded {
        return Gate::Overloaded;
    }
    let counted = look.in_progress.get(&ask.actor).copied().unwrap_or_default();
    if counted >= ask.policy.quota.into() { Gate::Quota } else { Gate::Open }
}

fn marks(ask: &Ask, look: &Look, db: &Database) -> Marks {
    let start = db.created_at - ask.policy.remember;
    let newest = names(ask).chain([""]).filter_map(|name| look.marks.get(name)).copied().max();
    Marks { forgotten_before: newest.map_or(start, |mark| start.max(mark)), horizon: look.horizon }
}

pub(super) fn new_holder(db: &Database) -> Result<Holder, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::backend(&db.place, format!("no random numbers: {error}")))?;
    Ok(Holder::from_bytes(bytes))
}

/// Profiles that new records are bound under.
struct Kept {
    stored: Vec<std::sync::Arc<Profile>>,
    /// Deliveries whose profile names another list in the store.
    refused: Vec<(usize, StoreError)>,
}

/// Keeps the profiles that are not known to stand in the store, in their order: whoever inserts the same ones at the
/// same time waits for them one after the other.
async fn keep_profiles(
    link: &Link,
    items: &[&Meeting],
    inserted: &[(usize, samekey_core::claim::Record)],
    db: &Database,
) -> Result<Kept, Trouble> {
    let mut unknown = BTreeMap::new();
    for (item, record) in inserted {
        let profile = &items[*item].ask.profile;
        if record.fingerprint.is_some() && !db.has(profile) {
            unknown.entry(profile.id().to_string()).or_insert((*item, profile));
        }
    }
    let mut kept = Kept { stored: Vec::new(), refused: Vec::new() };
    for (item, profile) in unknown.into_values() {
        match keep_profile(link, profile).await {
            Ok(()) => kept.stored.push(std::sync::Arc::clone(profile)),
            Err(Trouble::Item(error)) => kept.refused.push((item, error)),
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(kept)
}

/// Two lists under one name would let a changed payload pass.
pub(super) async fn keep_profile(link: &impl Speak, profile: &Profile) -> Result<(), Trouble> {
    let (id, definition) = (profile.id().to_string(), profile.definition());
    link.execute("INSERT INTO samekey_profiles VALUES ($1, $2) ON CONFLICT DO NOTHING", &[&id, &definition]).await?;
    let row = link.query_one("SELECT definition FROM samekey_profiles WHERE id = $1", &[&id]).await?;
    if row.try_get::<_, &str>(0)? == definition {
        return Ok(());
    }
    Err(Trouble::Item(StoreError::unreadable(format!("profile {id} names another list of significant fields"))))
}

/// Writes over a record that was there, and says whether it still was what was read.
async fn write_change(link: &Link, change: &Change, ask: &Ask, now: Timestamp) -> Result<bool, Trouble> {
    let Change { seen, written, runs, .. } = change;
    if Updates::one(seen.id, seen.record.revision, written, None).write(link).await? == 0 {
        return Ok(false);
    }
    if *runs {
        let request_id = ask.request_id.as_deref().map(row::without_nul);
        link.execute("UPDATE idempotency_keys SET request_id = $2 WHERE id = $1", &[&seen.id.0, &request_id]).await?;
    }
    trail::add(link, seen.id, (Some(&seen.record), written), By::delivery(written), None, now).await?;
    Ok(true)
}

/// Inserts and commits, in one round trip where nothing but first claims is written.
async fn commit(
    link: &Link,
    items: &[&Meeting],
    inserts: &Inserts<'_>,
    inserted: Vec<(usize, samekey_core::claim::Record)>,
    now: Timestamp,
    told: &mut [Option<Told>],
    met: &mut [Option<Met>],
) -> Result<(), Trouble> {
    if inserts.is_empty() {
        return Ok(link.batch_execute("COMMIT").await?);
    }
    // A record that begins otherwise than by a claim has a step in its trail, which needs its id.
    let plain = inserted.iter().all(|(_, record)| !crate::store::Step::is_one(None, record, By::delivery(record)));
    link.prepare_cached(row::INSERT).await?;
    let parameters = inserts.parameters();
    let insert = link.query(row::INSERT, &parameters);
    let rows = if plain {
        let (rows, ()) = try_join(insert, link.batch_execute("COMMIT")).await?;
        rows
    } else {
        insert.await?
    };
    let mut ids: HashMap<(&str, &str, &str), RecordId> = HashMap::new();
    for row in &rows {
        ids.insert((row.try_get(1)?, row.try_get(2)?, row.try_get(3)?), RecordId(row.try_get(0)?));
    }
    for (item, record) in inserted {
        let ask = &items[item].ask;
        match ids.get(&(ask.key.expose(), ask.actor.stored(), &*ask.operation)) {
            Some(id) => {
                if !plain {
                    trail::add(link, *id, (None, &record), By::delivery(&record), None, now).await?;
                }
                if let Some(told) = &mut told[item] {
                    told.found = Some(Found {
                        id: *id,
                        operation: ask.operation.to_string(),
                        configured: ask.configured,
                        record,
                    });
                }
            }
            // Somebody without locks was first.
            None => met[item] = Some(Met::Later),
        }
    }
    if !plain {
        link.batch_execute("COMMIT").await?;
    }
    Ok(())
}

/// After COMMIT: reads the responses and profiles that are told.
async fn complete(link: &Link, mut outcomes: Vec<Met>) -> Result<Vec<Met>, Trouble> {
    for outcome in &mut outcomes {
        let Met::Told(told, ..) = outcome else { continue };
        let read = async {
            if let (Say::Replay | Say::Refuse(Code::ResponseNotStored), Some(found)) = (&told.say, &told.found) {
                told.response = row::response(link, found.id).await?;
            }
            told.profile = profile_of(link, told.say).await?;
            Ok(())
        };
        match read.await {
            Ok(()) => {}
            Err(Trouble::Item(error)) => *outcome = Met::Failed(error),
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(outcomes)
}

pub(super) async fn profile_of(link: &impl Speak, say: Say) -> Result<Option<Profile>, Trouble> {
    match say {
        Say::OtherProfile(id) => profile(link, id).await.map(Some),
        _ => Ok(None),
    }
}

async fn profile(link: &impl Speak, id: ProfileId) -> Result<Profile, Trouble> {
    let unknown =
        || Trouble::Item(StoreError::unreadable(format!("profile {id} of significant fields is not known here")));
    let row = link.query_opt("SELECT definition FROM samekey_profiles WHERE id = $1", &[&id.to_string()]).await?;
    Profile::parse(row.ok_or_else(unknown)?.try_get(0)?).map_err(|_| unknown())
}
