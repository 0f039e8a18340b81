//! Tickets: their table, and the handler that makes them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde::{Deserialize, Serialize};

use super::switches::now;
use crate::{Actor, Answer, Command, Fingerprint, Key, Outcome, Policy, RunError, sqlite};

/// A ticket with a photo is some tens of kilobytes.
const MOST_PHOTO_BYTES: usize = 400 << 10;
/// A demo that runs for weeks must not fill the disk.
const MOST_TICKETS: i64 = 10_000;

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS tickets (
    id INTEGER PRIMARY KEY,
    command TEXT UNIQUE,
    way TEXT NOT NULL,
    intent TEXT NOT NULL,
    author TEXT NOT NULL,
    title TEXT NOT NULL,
    place TEXT NOT NULL,
    priority TEXT NOT NULL,
    photo TEXT,
    at INTEGER NOT NULL
)";

/// What somebody wants.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTicket {
    pub(super) title: String,
    pub(super) place: String,
    #[serde(default = "normal")]
    pub(super) priority: String,
    /// A picture as a `data:` URL, as a page shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) photo: Option<String>,
}

fn normal() -> String {
    "normal".into()
}

impl NewTicket {
    /// Reads it, or says what is wrong with it.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let ticket: Self = serde_json::from_slice(body).map_err(|error| format!("This is no ticket: {error}."))?;
        for (name, text, most) in [("title", &ticket.title, 120), ("place", &ticket.place, 120)] {
            if text.trim().is_empty() || text.chars().count() > most {
                return Err(format!("A ticket has a {name} of 1 to {most} characters."));
            }
        }
        if !["low", "normal", "urgent"].contains(&ticket.priority.as_str()) {
            return Err("A ticket's priority is low, normal or urgent.".into());
        }
        if ticket
            .photo
            .as_ref()
            .is_some_and(|photo| photo.len() > MOST_PHOTO_BYTES || !photo.starts_with("data:image/"))
        {
            return Err(format!("A photo is a data: URL of an image, of at most {} KiB.", MOST_PHOTO_BYTES >> 10));
        }
        Ok(ticket)
    }
}

/// A ticket as lists show it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ticket {
    pub(super) id: i64,
    pub(super) way: String,
    pub(super) intent: String,
    pub(super) author: String,
    pub(super) title: String,
    pub(super) place: String,
    pub(super) priority: String,
    pub(super) has_photo: bool,
    pub(super) at: i64,
}

/// Who wants it, and which way it came.
#[derive(Clone, Debug)]
pub(super) struct From {
    pub(super) author: String,
    pub(super) intent: String,
}

/// The table, in samekey's own database file. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Tickets {
    db: Arc<Mutex<Connection>>,
    /// Of the row, as a command of its own.
    row: Policy,
}

type Failed = RunError<rusqlite::Error>;

impl Tickets {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut db = Connection::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        sqlite::migrate(&mut db)?;
        db.execute_batch(TABLE)?;
        Ok(Self { db: Arc::new(Mutex::new(db)), row: Policy::new(super::service::ROW) })
    }

    async fn with<T: Send + 'static>(&self, run: impl FnOnce(&mut Connection) -> T + Send + 'static) -> T {
        let db = Arc::clone(&self.db);
        let ran = tokio::task::spawn_blocking(move || run(&mut db.lock().unwrap_or_else(PoisonError::into_inner)));
        match ran.await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// The row of a command: claim, row and answer in one transaction, so that another attempt finds it made.
    pub(super) async fn once(
        &self,
        ticket: NewTicket,
        from: From,
        key: Key,
        command: String,
    ) -> Result<Outcome, Failed> {
        let policy = self.row.clone();
        self.with(move |db| {
            let fingerprint = Fingerprint::of_json(&ticket)
                .map_err(|error| RunError::Effect(rusqlite::Error::ToSqlConversionFailure(Box::new(error))))?;
            let row = Command::new(Actor::new(&from.author), super::service::ROW, key, fingerprint);
            sqlite::run_once(db, &row, &policy, |tx| {
                let id = insert(tx, &ticket, &from, Some(&command))?;
                Ok(Answer::json(http::StatusCode::CREATED, &id).result_id(id.to_string()))
            })
        })
        .await
    }

    /// The row as services write it: one more for each request.
    pub(super) async fn again(&self, ticket: NewTicket, from: From) -> Result<i64, rusqlite::Error> {
        self.with(move |db| {
            let tx = db.transaction()?;
            let id = insert(&tx, &ticket, &from, None)?;
            tx.commit()?;
            Ok(id)
        })
        .await
    }

    pub(super) async fn list(&self) -> Result<Vec<Ticket>, rusqlite::Error> {
        self.with(|db| {
            let mut rows = db.prepare_cached(
                "SELECT id, way, intent, author, title, place, priority, photo IS NOT NULL, at FROM tickets ORDER BY id",
            )?;
            let list = rows.query_map([], |row| {
                Ok(Ticket {
                    id: row.get(0)?,
                    way: row.get(1)?,
                    intent: row.get(2)?,
                    author: row.get(3)?,
                    title: row.get(4)?,
                    place: row.get(5)?,
                    priority: row.get(6)?,
                    has_photo: row.get(7)?,
                    at: row.get(8)?,
                })
            })?;
            list.collect()
        })
        .await
    }

    /// The photo of a ticket; the outer `None` if there is no such ticket.
    pub(super) async fn photo(&self, id: i64) -> Result<Option<Option<String>>, rusqlite::Error> {
        self.with(move |db| db.query_row("SELECT photo FROM tickets WHERE id = ?1", [id], |row| row.get(0)).optional())
            .await
    }

    /// The ticket that a command made.
    pub(super) async fn made_by(&self, command: String) -> Result<Option<i64>, rusqlite::Error> {
        self.with(move |db| {
            db.query_row("SELECT id FROM tickets WHERE command = ?1", [command], |row| row.get(0)).optional()
        })
        .await
    }
}

fn insert(tx: &Transaction<'_>, ticket: &NewTicket, from: &From, command: Option<&str>) -> rusqlite::Result<i64> {
    let count: i64 = tx.query_row("SELECT count(*) FROM tickets", [], |row| row.get(0))?;
    if count >= MOST_TICKETS {
        return Err(rusqlite::Error::InvalidParameterName("there are too many tickets; restart the demo".into()));
    }
    let way = if command.is_some() { "samekey" } else { "plain" };
    let NewTicket { title, place, priority, photo } = ticket;
    tx.execute(
        "INSERT INTO tickets (command, way, intent, author, title, place, priority, photo, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            command,
            way,
            from.intent,
            from.author,
            title,
            place,
            priority,
            photo,
            i64::try_from(now()).unwrap_or(i64::MAX)
        ],
    )?;
    Ok(tx.last_insert_rowid())
}
