//! A delivery, and an event, meet their record: load, ask core, write what it says.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params_from_iter};
use samekey_core::claim::transition::{Finish, Probed, Settlement, Write};
use samekey_core::claim::{self, Context, Delivery, Event, Gate, Holder, Marks, Record, Say, State, Terminal, Verdict};
use samekey_core::problem::Code;
use samekey_core::select::{Profile, ProfileId};
use samekey_core::{KeyTime, Policy, Timestamp};

use super::known::Known;
use super::moved::{Moved, Whose};
use super::row::{self, Place};
use super::statement::ByNames;
use super::{Trouble, effects, erase, trail};
use crate::store::{Applied, Ask, By, Change, Found, Note, Purpose, RecordId, StoreError, StoredResponse, Told};

/// What a transaction knows besides its rows.
pub(super) struct Setting<'a> {
    pub(super) place: &'a Arc<str>,
    pub(super) now: Timestamp,
    /// By when keys are believed: a clock that was set back must not make an old key look like one from the future,
    /// which is not compared with what was forgotten.
    pub(super) latest: Timestamp,
    pub(super) may_judge: &'a dyn Fn(&Policy) -> bool,
    /// When the store was made.
    pub(super) created_at: Timestamp,
    pub(super) known: &'a mut Known,
    /// What changed its state so far.
    pub(super) moved: Vec<Moved>,
}

/// The rules on a connection of the application's own, inside its transaction.
pub(crate) struct Own<'a> {
    conn: &'a Connection,
    place: &'a Arc<str>,
    now: Timestamp,
    created_at: Timestamp,
    known: Known,
}

impl<'a> Own<'a> {
    /// Notes when the tables were first used: memory begins there.
    pub(crate) fn new(conn: &'a Connection, place: &'a Arc<str>, now: Timestamp) -> Result<Self, StoreError> {
        let of = |error| StoreError::sqlite(place, error);
        conn.prepare_cached("INSERT INTO samekey_meta VALUES ('created_at', ?1) ON CONFLICT DO NOTHING")
            .and_then(|mut note| note.execute([now.as_millis()]))
            .map_err(of)?;
        let created_at: i64 = conn
            .prepare_cached("SELECT value FROM samekey_meta WHERE name = 'created_at'")
            .and_then(|mut read| read.query_row([], |row| row.get(0)))
            .map_err(of)?;
        let created_at = Timestamp::from_millis(created_at);
        Ok(Self { conn, place, now, created_at, known: Known::default() })
    }

    fn with<T>(
        &mut self,
        ask: impl FnOnce(&Connection, &mut Setting<'_>) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        // Claims in a transaction have no heartbeat and no process that could judge them: whoever committed one
        // without its end left it, and its deadline tells.
        let mut setting = Setting {
            place: self.place,
            now: self.now,
            latest: self.now,
            may_judge: &|_| true,
            created_at: self.created_at,
            known: &mut self.known,
            // The application's own database keeps no counts.
            moved: Vec::new(),
        };
        ask(self.conn, &mut setting).map_err(|trouble| match trouble {
            Trouble::Sqlite(error) => StoreError::sqlite(self.place, error),
            Trouble::Item(error) => error,
        })
    }

    pub(crate) fn deliver(&mut self, ask: &Ask) -> Result<Told, StoreError> {
        self.with(|conn, setting| deliver(conn, ask, Purpose::Run, false, setting).map(|(told, _)| told))
    }

    pub(crate) fn apply(
        &mut self,
        id: RecordId,
        policy: &Arc<Policy>,
        event: Event,
        response: Option<StoredResponse>,
    ) -> Result<Applied, StoreError> {
        let change = Change { id, policy: Arc::clone(policy), event, response, note: Note::default() };
        self.with(|conn, setting| apply(conn, &change, setting).map(|(applied, _)| applied))
    }
}

/// How often a delivery looks again after its place was taken between look and write. Under the write lock that
/// cannot happen; a bound is cheaper than being wrong about it.
const MAX_LOOKS: usize = 4;

/// The delivery's turn under the write lock. Says whether anything was written.
pub(super) fn deliver(
    conn: &Connection,
    ask: &Ask,
    purpose: Purpose,
    crowded: bool,
    setting: &mut Setting<'_>,
) -> Result<(Told, bool), Trouble> {
    for _ in 0..MAX_LOOKS {
        let found = look_up(conn, ask, || Ok(setting.known.memory(conn)?.erased))?;
        if found.is_none() {
            super::named::refuse_foreign(conn, ask)?;
        }
        let (gate, marks) = match &found {
            Some(_) => (Gate::Open, unused_marks()),
            None => (gate(conn, ask, crowded, setting.known)?, marks(conn, names(ask), ask.policy.remember, setting)?),
        };
        let verdict = decide(
            ask,
            purpose,
            found.as_ref().map(|found| &found.record),
            Stand { gate, marks, latest: setting.latest },
            &Context {
                now: setting.now,
                policy: &ask.policy,
                may_judge: (setting.may_judge)(&ask.policy),
                new_holder: new_holder(setting.place)?,
            },
        );
        let Verdict { write, say } = verdict;
        let wrote = write.is_some();
        let found = match (write, found) {
            (None, found) => found,
            (Some(record), None) => {
                let place = Place {
                    actor: &ask.actor,
                    operation: &ask.operation,
                    key: &ask.key,
                    configured: ask.configured,
                    request_id: ask.request_id.as_deref(),
                };
                if record.fingerprint.is_some() {
                    keep_profile(conn, &ask.profile, setting.known)?;
                }
                let Some(id) = row::insert(conn, &place, &record)? else { continue };
                let by = By::delivery(&record);
                trail::add(conn, id, (None, &record), by, None, setting.now)?;
                let found = Found { id, operation: ask.operation.to_string(), configured: ask.configured, record };
                setting.moved.extend(Moved::new(whose(ask, &found), (None, Some(&found.record)), by, setting.now));
                Some(found)
            }
            (Some(record), Some(seen)) => {
                if !row::update(conn, seen.id, seen.record.revision, &record, None)? {
                    continue;
                }
                if let Say::Run(_) = say {
                    conn.prepare_cached("UPDATE idempotency_keys SET request_id = ?2 WHERE id = ?1")?
                        .execute((seen.id.0, ask.request_id.as_deref()))?;
                }
                let by = By::delivery(&record);
                trail::add(conn, seen.id, (Some(&seen.record), &record), by, None, setting.now)?;
                let moved = Moved::new(whose(ask, &seen), (Some(&seen.record), Some(&record)), by, setting.now);
                setting.moved.extend(moved);
                Some(Found { record, ..seen })
            }
        };
        if matches!(say, Say::Run(_)) {
            setting.known.runs(&ask.actor);
        }
        let told = tell(conn, say, found, setting.now, usize::MAX)?;
        return Ok((told.ok_or_else(|| changed(setting.place))?, wrote));
    }
    Err(changed(setting.place))
}

pub(in crate::store) fn whose<'a>(ask: &'a Ask, found: &'a Found) -> Whose<'a> {
    let Found { id, operation, configured, .. } = found;
    Whose { id: *id, operation, configured: *configured, policy: &ask.policy, key: ask.key.expose() }
}

/// What a delivery is told without a turn under the write lock, if nothing is to be written. The outer `None`: the
/// answer is longer than `at_most`.
pub(super) fn peek(
    conn: &Connection,
    ask: &Ask,
    now: Timestamp,
    may_judge: bool,
    at_most: usize,
) -> Result<Option<Option<Told>>, Trouble> {
    // Whose actor was erased, the writer finds.
    let Some(found) = look_up(conn, ask, || Ok(None))? else { return Ok(Some(None)) };
    // Without a record nothing is claimed here, and every row with one takes its holder from the delivery.
    let stand = Stand { gate: Gate::Open, marks: unused_marks(), latest: now };
    let context = Context { now, policy: &ask.policy, may_judge, new_holder: ask.holder };
    let verdict = decide(ask, Purpose::Run, Some(&found.record), stand, &context);
    match verdict {
        Verdict { write: Some(_), .. } | Verdict { say: Say::Run(_), .. } => Ok(Some(None)),
        Verdict { write: None, say } => Ok(tell(conn, say, Some(found), now, at_most)?.map(Some)),
    }
}

/// What counts where there is no record yet.
#[derive(Clone, Copy)]
pub(in crate::store) struct Stand {
    pub(in crate::store) gate: Gate,
    pub(in crate::store) marks: Marks,
    pub(in crate::store) latest: Timestamp,
}

pub(in crate::store) fn decide(
    ask: &Ask,
    purpose: Purpose,
    record: Option<&Record>,
    stand: Stand,
    context: &Context<'_>,
) -> Verdict {
    let key_time = match ask.policy.key_time {
        KeyTime::Carried => ask.key.time(stand.latest, ask.policy.clock_skew),
        KeyTime::None => None,
    };
    let Stand { gate, marks, .. } = stand;
    match purpose {
        Purpose::Run => {
            let delivery = Delivery { fingerprint: ask.fingerprint, key_time, holder: ask.holder, gate, marks };
            claim::deliver(record, &delivery, context)
        }
        Purpose::Close => claim::close(record, gate, key_time, marks, context),
    }
}

/// Core looks at the marks only where there is no record.
pub(in crate::store) fn unused_marks() -> Marks {
    Marks { forgotten_before: Timestamp::from_millis(i64::MIN), horizon: None }
}

/// `None`: the answer is longer than `at_most`.
fn tell(
    conn: &Connection,
    say: Say,
    found: Option<Found>,
    now: Timestamp,
    at_most: usize,
) -> Result<Option<Told>, Trouble> {
    let response = match (&say, &found) {
        (Say::Replay | Say::Refuse(Code::ResponseNotStored), Some(found)) => row::response(conn, found.id, at_most)?,
        _ => Some(None),
    };
    let Some(response) = response else { return Ok(None) };
    let profile = match say {
        Say::OtherProfile(id) => Some(profile(conn, id)?),
        _ => None,
    };
    Ok(Some(Told { say, found, response, profile, now }))
}

pub(in crate::store) fn names(ask: &Ask) -> impl Iterator<Item = &str> {
    std::iter::once(&*ask.operation).chain(ask.also.iter().map(String::as_str))
}

/// The record of the key, also if its actor was erased: `erased` says how such actors are called, if there are any.
pub(super) fn look_up(
    conn: &Connection,
    ask: &Ask,
    erased: impl FnOnce() -> rusqlite::Result<Option<[u8; 32]>>,
) -> Result<Option<Found>, Trouble> {
    if let Some(found) = look_up_as(conn, ask, ask.actor.stored())? {
        return Ok(Some(found));
    }
    match erased()? {
        Some(secret) => look_up_as(conn, ask, &erase::pseudonym(&secret, &ask.actor)),
        None => Ok(None),
    }
}

/// The record of the key under any of the operation's names. Where an older configuration let it come to two,
/// one that may not run again answers for both.
fn look_up_as(conn: &Connection, ask: &Ask, actor: &str) -> Result<Option<Found>, Trouble> {
    static BY_NAMES: ByNames = ByNames::new(3, |names| {
        // One name has one record: the order would cost a sorter.
        let order = if names.contains(',') { "ORDER BY state = 'released', operation <> ?3, id" } else { "" };
        format!(
            "SELECT {} FROM idempotency_keys WHERE idem_key = ?1 AND actor_id = ?2 AND operation IN ({names}) {order} \
             LIMIT 1",
            row::COLUMNS
        )
    });
    let mut statement = conn.prepare_cached(&BY_NAMES.text(1 + ask.also.len()))?;
    let values = [ask.key.expose(), actor].into_iter().chain(names(ask));
    let mut rows = statement.query(params_from_iter(values))?;
    rows.next()?.map(row::read).transpose()
}

/// What stands before a new claim. The fence comes first: it says more than that the server is busy.
fn gate(conn: &Connection, ask: &Ask, crowded: bool, known: &mut Known) -> Result<Gate, Trouble> {
    if ask.fence_credentials && ask.key.contains_uuid_or_ulid() && is_known_to_another(conn, ask)? {
        return Ok(Gate::ActorChanged);
    }
    if crowded {
        return Ok(Gate::Overloaded);
    }
    Ok(if known.is_over(conn, &ask.actor, ask.policy.quota)? { Gate::Quota } else { Gate::Open })
}

fn is_known_to_another(conn: &Connection, ask: &Ask) -> rusqlite::Result<bool> {
    static BY_NAMES: ByNames = ByNames::new(3, |names| {
        format!(
            "SELECT 1 FROM idempotency_keys WHERE idem_key = ?1 AND actor_id <> ?2 AND operation IN ({names}) LIMIT 1"
        )
    });
    let values = [ask.key.expose(), ask.actor.stored()].into_iter().chain(names(ask));
    conn.prepare_cached(&BY_NAMES.text(1 + ask.also.len()))?.exists(params_from_iter(values))
}

/// Where memory begins for the operation. The row that operations outside the configuration share counts for
/// every one: it may have been outside when the key was forgotten.
pub(super) fn marks<'a>(
    conn: &Connection,
    names: impl Iterator<Item = &'a str>,
    remember: Duration,
    setting: &mut Setting<'_>,
) -> rusqlite::Result<Marks> {
    let memory = setting.known.memory(conn)?;
    let start = setting.created_at - remember;
    let newest = memory.newest(names.chain([""]));
    Ok(Marks { forgotten_before: newest.map_or(start, |mark| start.max(mark)), horizon: memory.horizon })
}

/// Keeps the profile that a new record is bound under. Two lists under one name would let a changed payload pass.
fn keep_profile(conn: &Connection, profile: &Arc<Profile>, known: &mut Known) -> Result<(), Trouble> {
    if known.has(profile) {
        return Ok(());
    }
    let (id, definition) = (profile.id().to_string(), profile.definition());
    conn.prepare_cached("INSERT INTO samekey_profiles (id, definition) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute((&id, &definition))?;
    let kept: String = conn
        .prepare_cached("SELECT definition FROM samekey_profiles WHERE id = ?1")?
        .query_row([&id], |row| row.get(0))?;
    if kept == definition {
        known.add(profile);
        return Ok(());
    }
    Err(Trouble::Item(StoreError::unreadable(format!("profile {id} names another list of significant fields"))))
}

fn profile(conn: &Connection, id: ProfileId) -> Result<Profile, Trouble> {
    let unknown =
        || Trouble::Item(StoreError::unreadable(format!("profile {id} of significant fields is not known here")));
    let definition: Option<String> = conn
        .prepare_cached("SELECT definition FROM samekey_profiles WHERE id = ?1")?
        .query_row([id.to_string()], |row| row.get(0))
        .optional()?;
    Profile::parse(&definition.ok_or_else(unknown)?).map_err(|_| unknown())
}

fn new_holder(place: &Arc<str>) -> Result<Holder, Trouble> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Trouble::Item(StoreError::backend(place, format!("no random numbers: {error}"))))?;
    Ok(Holder::from_bytes(bytes))
}

/// A record by its name.
pub(super) fn load(conn: &Connection, id: RecordId) -> Result<Option<Record>, Trouble> {
    Ok(by_id(conn, id)?.map(|found| found.record))
}

/// The same, with the operation under which it was made.
pub(super) fn by_id(conn: &Connection, id: RecordId) -> Result<Option<Found>, Trouble> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT {} FROM idempotency_keys WHERE id = ?1", row::COLUMNS));
    let mut statement = conn.prepare_cached(&SELECT)?;
    let mut rows = statement.query([id.0])?;
    rows.next()?.map(row::read).transpose()
}

/// An event meets its record. Says whose record was written.
pub(super) fn apply(
    conn: &Connection,
    change: &Change,
    setting: &mut Setting<'_>,
) -> Result<(Applied, Option<(String, String)>), Trouble> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT {}, actor_id, idem_key FROM idempotency_keys WHERE id = ?1", row::COLUMNS,));
    let mut statement = conn.prepare_cached(&SELECT)?;
    let mut rows = statement.query([change.id.0])?;
    let Some(row) = rows.next()? else { return Ok((Applied { record: None, refused: None }, None)) };
    let Found { id, operation, configured, record } = row::read(row)?;
    let scope: (String, String) = (row.get(row::COLUMN_COUNT)?, row.get(row::COLUMN_COUNT + 1)?);
    drop(rows);
    let by = By::event(&change.event);
    let moved = |after: Option<&Record>| {
        let whose = Whose { id, operation: &operation, configured, policy: &change.policy, key: &scope.1 };
        let moved = Moved::new(whose, (Some(&record), after), by, setting.now)?;
        Some(Moved { who: change.note.who.clone(), ..moved })
    };

    let may_judge = (setting.may_judge)(&change.policy);
    let context =
        Context { now: setting.now, policy: &change.policy, may_judge, new_holder: new_holder(setting.place)? };
    let event = as_stored(&change.event, change.response.as_ref());
    match claim::transition(&record, &event, &context) {
        Ok(Write::Nothing) => Ok((Applied { record: Some(record), refused: None }, None)),
        Ok(write @ (Write::Update(_) | Write::UpdateAndCloseEffects(_))) => {
            let closes = matches!(write, Write::UpdateAndCloseEffects(_));
            let (Write::Update(written) | Write::UpdateAndCloseEffects(written)) = write else {
                return Err(changed(setting.place));
            };
            if !row::update(conn, id, record.revision, &written, change.response.as_ref())? {
                return Err(changed(setting.place));
            }
            if closes {
                effects::close(conn, id, setting.now)?;
            }
            if written.state == State::Expired && !written.effects.none() {
                effects::forget(conn, id)?;
            }
            trail::add(conn, id, (Some(&record), &written), by, Some(&change.note), setting.now)?;
            setting.moved.extend(moved(Some(&written)));
            Ok((Applied { record: Some(written), refused: None }, Some(scope)))
        }
        Ok(Write::Delete { mark }) => {
            let deleted = conn
                .prepare_cached("DELETE FROM idempotency_keys WHERE id = ?1 AND revision = ?2")?
                .execute((id.0, row::signed(record.revision)))?;
            if deleted == 0 {
                return Err(changed(setting.place));
            }
            effects::forget(conn, id)?;
            trail::forget(conn, id)?;
            setting.moved.extend(moved(None));
            if let Some(mark) = mark {
                let mark_name = if configured { operation } else { String::new() };
                conn.prepare_cached(
                    "INSERT INTO samekey_forgotten_before (operation, mark) VALUES (?1, ?2) \
                     ON CONFLICT DO UPDATE SET mark = max(mark, excluded.mark)",
                )?
                .execute((&mark_name, mark.as_millis()))?;
                setting.known.moved(mark_name, mark);
            }
            Ok((Applied { record: None, refused: None }, Some(scope)))
        }
        Err(refused) => Ok((Applied { record: Some(record), refused: Some(refused) }, None)),
    }
}

/// Cannot happen while the write lock holds.
pub(super) fn changed(place: &Arc<str>) -> Trouble {
    Trouble::Item(StoreError::backend(place, "a record changed under the write lock"))
}

/// An answer that is said to be stored but did not come along is not: the record ends without it.
pub(in crate::store) fn as_stored(event: &Event, response: Option<&StoredResponse>) -> Event {
    let mut event = event.clone();
    let terminal: Option<&mut Terminal> = match &mut event {
        Event::Finish(_, Finish::Terminal(terminal)) => Some(terminal),
        Event::Probe { verdict: Probed::Done(terminal), .. } => Some(terminal),
        Event::Operator { settlement: Settlement::Ended(terminal), .. } => Some(terminal),
        _ => None,
    };
    if let Some(terminal) = terminal {
        terminal.has_response &= response.is_some();
    }
    event
}
