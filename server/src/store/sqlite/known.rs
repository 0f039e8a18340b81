//! What the writer remembers of tables that seldom change.
//!
//! Whoever changes one of them on the writer's connection says so by [`Known::forget`]; what other connections did
//! is told by SQLite, inside the transaction that asks.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use samekey_core::select::{Profile, ProfileId};
use samekey_core::{Actor, Timestamp};

/// A configuration has tens of profiles and operations; more come from many deploys under one process.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Known {
    /// Profiles that stand in the store as they are here.
    profiles: HashMap<ProfileId, Arc<Profile>>,
    memory: Option<Memory>,
    /// In progress by actor, as this transaction has counted; never less than there are.
    in_progress: HashMap<Actor, u32>,
    version: Option<i64>,
}

/// Where memory begins.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) horizon: Option<Timestamp>,
    /// How erased actors are called, if somebody was erased.
    pub(super) erased: Option<[u8; 32]>,
    forgotten_before: HashMap<String, Timestamp>,
}

impl Memory {
    fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let horizon: Option<i64> = conn
            .prepare_cached("SELECT (SELECT value FROM samekey_meta WHERE name = 'horizon')")?
            .query_row([], |row| row.get(0))?;
        let mut statement = conn.prepare_cached("SELECT operation, mark FROM samekey_forgotten_before")?;
        let marks = statement.query_map([], |row| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?))))?;
        let erased = super::erase::secret(conn)?;
        Ok(Self {
            horizon: horizon.map(Timestamp::from_millis),
            erased,
            forgotten_before: marks.collect::<Result<_, _>>()?,
        })
    }

    /// The newest key time that was forgotten under any of these names.
    pub(super) fn newest<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<Timestamp> {
        names.filter_map(|name| self.forgotten_before.get(name)).copied().max()
    }
}

impl Known {
    /// A transaction holds the write lock: from now on nobody else changes anything.
    pub(super) fn begin(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let version = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version != Some(version) {
            self.forget();
            self.version = Some(version);
        }
        self.in_progress.clear();
        Ok(())
    }

    /// Something of this changed on the writer's own connection, or a transaction was rolled back.
    pub(super) fn forget(&mut self) {
        self.profiles.clear();
        self.memory = None;
        self.in_progress.clear();
    }

    /// `forgotten_before` moved on the writer's own connection. If its transaction is rolled back, all is forgotten.
    pub(super) fn moved(&mut self, name: String, mark: Timestamp) {
        if let Some(memory) = &mut self.memory {
            let newest = memory.forgotten_before.entry(name).or_insert(mark);
            *newest = mark.max(*newest);
        }
    }

    /// Where memory begins; the table has a row for each operation of the configuration.
    pub(super) fn memory(&mut self, conn: &Connection) -> rusqlite::Result<&Memory> {
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => Memory::read(conn)?,
        };
        Ok(self.memory.insert(memory))
    }

    /// This very profile stands in the store.
    pub(super) fn has(&self, profile: &Arc<Profile>) -> bool {
        self.profiles.get(&profile.id()).is_some_and(|known| Arc::ptr_eq(known, profile) || known == profile)
    }

    pub(super) fn add(&mut self, profile: &Arc<Profile>) {
        if self.profiles.len() >= MOST {
            self.profiles.clear();
        }
        self.profiles.insert(profile.id(), Arc::clone(profile));
    }

    /// Whether this actor has `quota` keys in progress. Counted once in a transaction, and again before a refusal:
    /// claims that lapsed meanwhile are not told here.
    pub(super) fn is_over(&mut self, conn: &Connection, actor: &Actor, quota: u32) -> rusqlite::Result<bool> {
        if self.in_progress.get(actor).is_some_and(|counted| *counted < quota) {
            return Ok(false);
        }
        let counted = conn
            .prepare_cached(
                "SELECT count(*) FROM \
                 (SELECT 1 FROM idempotency_keys WHERE actor_id = ?1 AND state = 'in_progress' LIMIT ?2)",
            )?
            .query_row((actor.stored(), quota), |row| row.get(0))?;
        self.in_progress.insert(actor.clone(), counted);
        Ok(counted >= quota)
    }

    /// One more is in progress.
    pub(super) fn runs(&mut self, actor: &Actor) {
        if let Some(counted) = self.in_progress.get_mut(actor) {
            *counted += 1;
        }
    }
}
