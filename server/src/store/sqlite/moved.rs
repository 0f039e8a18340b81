//! Records that changed their state: counted in the transaction that changes them, told once it is committed.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::Connection;
use samekey_core::claim::{Reason, Record, State};
use samekey_core::{Policy, Timestamp};

use crate::observe::{self, Label};
use crate::store::{By, RecordId};

/// One record that changed its state.
#[derive(Debug)]
pub(in crate::store) struct Moved {
    pub(in crate::store) id: RecordId,
    /// As metrics name the operation.
    pub(in crate::store) label: Label,
    /// The record's own name.
    pub(in crate::store) operation: String,
    pub(in crate::store) configured: bool,
    pub(in crate::store) from: Option<State>,
    pub(in crate::store) to: Option<State>,
    pub(in crate::store) by: By,
    pub(in crate::store) attempt: u32,
    pub(in crate::store) reason: Option<Reason>,
    pub(in crate::store) age: Duration,
    pub(in crate::store) who: Option<String>,
    /// For the log; only where there is something to tell.
    pub(in crate::store) key: Option<String>,
}

/// Where a record belongs.
#[derive(Clone, Copy)]
pub(in crate::store) struct Whose<'a> {
    pub(in crate::store) id: RecordId,
    pub(in crate::store) operation: &'a str,
    pub(in crate::store) configured: bool,
    pub(in crate::store) policy: &'a Policy,
    pub(in crate::store) key: &'a str,
}

impl Moved {
    /// `None`: the state stayed as it was.
    pub(in crate::store) fn new(
        whose: Whose<'_>,
        (before, after): (Option<&Record>, Option<&Record>),
        by: By,
        now: Timestamp,
    ) -> Option<Self> {
        let (from, to) = (before.map(|record| record.state), after.map(|record| record.state));
        let record = after.or(before).filter(|_| from != to)?;
        let told = by == By::Lease || from == Some(State::Uncertain) || to == Some(State::Uncertain);
        Some(Self {
            id: whose.id,
            label: observe::label(whose.configured, &whose.policy.operation),
            operation: whose.operation.to_owned(),
            configured: whose.configured,
            from,
            to,
            by,
            attempt: record.fence.attempt,
            reason: record.reason,
            age: now.since(record.created_at),
            who: None,
            key: told.then(|| whose.key.to_owned()),
        })
    }
}

/// Keeps the counts: one write for each state of an operation, however many records changed theirs.
pub(super) fn count(conn: &Connection, moved: &[Moved]) -> rusqlite::Result<()> {
    let mut changes: HashMap<(&str, State), i64> = HashMap::new();
    for Moved { operation, configured, from, to, .. } in moved {
        let group = if *configured { operation.as_str() } else { "" };
        for (state, by) in [(from, -1), (to, 1)] {
            if let Some(state) = state {
                *changes.entry((group, *state)).or_default() += by;
            }
        }
    }
    for ((operation, state), change) in changes.into_iter().filter(|(_, change)| *change != 0) {
        conn.prepare_cached(
            "INSERT INTO samekey_counts (operation, state, records) VALUES (?1, ?2, ?3) \
             ON CONFLICT DO UPDATE SET records = records + excluded.records",
        )?
        .execute((operation, state.as_str(), change))?;
    }
    Ok(())
}

/// Which way a record went: its operation, from where to where, and who sent it.
type Way<'a> = (&'a Label, Option<State>, Option<State>, By);

/// Tells metrics and log, after COMMIT.
pub(in crate::store) fn tell(moved: &[Moved], log_hash: impl Fn(&str) -> String) {
    let mut counted: HashMap<Way<'_>, u64> = HashMap::new();
    for one in moved {
        *counted.entry((&one.label, one.from, one.to, one.by)).or_default() += 1;
        let key_hash = one.key.as_deref().map(&log_hash);
        let state = one.to.map_or("forgotten", State::as_str);
        if one.by == By::Lease {
            observe::lease_lapsed(&one.operation, one.id, one.attempt, key_hash.as_deref(), state);
        }
        // The holder itself knows better why, and says so.
        if one.to == Some(State::Uncertain) && one.by != By::Handler {
            observe::uncertain(&observe::Uncertain {
                operation: &one.operation,
                record: one.id,
                attempt: one.attempt,
                key_hash: key_hash.as_deref(),
                request_id: None,
                trace_id: None,
                reason: one.reason.map_or("unknown", Reason::as_str),
                age: one.age,
                why: "nobody alive knows how the attempt ended",
            });
        }
        if one.from == Some(State::Uncertain) && one.by != By::Delivery {
            observe::settled(&observe::Settled {
                operation: &one.operation,
                record: one.id,
                attempt: one.attempt,
                key_hash: key_hash.as_deref(),
                state,
                by: one.by,
                who: one.who.as_deref(),
                reason: one.reason.map(Reason::as_str),
                age: one.age,
            });
        }
    }
    for ((label, from, to, by), times) in counted {
        observe::transition(label, from, to, by, times);
    }
}
