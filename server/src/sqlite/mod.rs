//! Claim, effect and answer in one transaction of the application's own SQLite database.
//!
//! The strongest mode: there is no moment at which the effect happened and the answer is not stored. It covers what
//! the transaction writes, and nothing else: a mail or a charge made inside is an effect outside the database.
//!
//! ```
//! use samekey::{Actor, Answer, Command, Fingerprint, Policy, sqlite};
//! use http::StatusCode;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app.db");
//! let mut db = rusqlite::Connection::open(path)?;
//! sqlite::migrate(&mut db)?;
//! db.execute_batch("CREATE TABLE tickets (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")?;
//! let policy = Policy::new("tickets.create");
//! let title = "No light";
//! for delivery in 0..3 {
//!     let fingerprint = Fingerprint::of_json(&serde_json::json!({ "title": title }))?;
//!     let command = Command::new(Actor::new("ann"), "tickets.create", "k1".parse()?, fingerprint);
//!     let outcome = sqlite::run_once(&mut db, &command, &policy, |tx| {
//!         tx.execute("INSERT INTO tickets (title) VALUES (?1)", [title])?;
//!         let id = tx.last_insert_rowid();
//!         Ok::<_, rusqlite::Error>(Answer::json(StatusCode::CREATED, &id).result_id(id.to_string()))
//!     })?;
//!     assert_eq!(outcome.replayed, delivery > 0);
//! }
//! assert_eq!(db.query_row("SELECT count(*) FROM tickets", [], |row| row.get::<_, u32>(0))?, 1);
//! # Ok(()) }
//! ```
//!
//! `r2d2` and `deadpool` hand out the same `Connection`: call it inside `spawn_blocking` or `interact`.

mod connection;
mod error;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use samekey_core::claim::{Event, Fence, Finish, Say};
use samekey_core::problem::Code;
use samekey_core::{Policy, Timestamp};

use crate::clock::Clock;
use crate::command::{Answer, Command, Outcome};
use crate::layer::answer;
use crate::problem::Problem;
use crate::store::sqlite::claims::Own;
use crate::store::{Applied, RecordId, StoreError};

pub use error::RunError;
pub use rusqlite;

/// The tables, for applications that have a migration tool of their own. Running it again changes nothing.
pub const SCHEMA: &str = crate::store::sqlite::TABLES;

/// Makes the tables, if they are missing.
///
/// # Errors
/// If the database cannot be written.
pub fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    let place = connection::place(conn);
    conn.execute_batch(SCHEMA).map_err(|error| StoreError::sqlite(&place, error))
}

/// Runs `effect` if no delivery of this command did, and keeps its answer in the same transaction.
///
/// `Ok(answer)` of any status is terminal: it is stored and replayed. `Err` rolls everything back and leaves
/// nothing: the same key may run again.
///
/// The transaction begins IMMEDIATE with `synchronous = FULL`, so that what was answered survives a power cut.
///
/// # Errors
/// [`RunError::Refused`] where the delivery does not run and has no stored answer; it is a response.
/// [`RunError::Store`] if the connection is inside a transaction, has other databases attached (their commit is not
/// one with the main one's), or the database fails. If COMMIT itself failed, the retry tells what happened.
pub fn run_once<E>(
    conn: &mut Connection,
    command: &Command,
    policy: &Policy,
    effect: impl FnOnce(&Transaction<'_>) -> Result<Answer, E>,
) -> Result<Outcome, RunError<E>> {
    connection::check(conn)?;
    let synchronous = connection::make_durable(conn)?;
    let outcome = run(conn, command, policy, effect);
    connection::restore(conn, synchronous)?;
    outcome
}

fn run<E>(
    conn: &mut Connection,
    command: &Command,
    policy: &Policy,
    effect: impl FnOnce(&Transaction<'_>) -> Result<Answer, E>,
) -> Result<Outcome, RunError<E>> {
    let place = connection::place(conn);
    let of = |error| StoreError::sqlite(&place, error);
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
    match begun(&tx, command, policy)? {
        Met::Run(open) => {
            let answer = effect(&tx).map_err(RunError::Effect)?;
            if tx.is_autocommit() {
                return Err(StoreError::misuse("the effect ended the transaction that it was given").into());
            }
            let outcome = open.finish(&tx, answer)?;
            tx.commit().map_err(of)?;
            Ok(outcome)
        }
        Met::Replay(outcome) => Ok(outcome),
        Met::Refused(problem) => {
            // A refusal may have written that the outcome is unknown (after a restore).
            tx.commit().map_err(of)?;
            Err(RunError::Refused(problem))
        }
    }
}

/// What a claim on the caller's own transaction came to.
#[derive(Debug)]
pub enum Begun {
    /// It runs: do the effect in the same transaction, then [`Open::finish`] and COMMIT.
    Run(Open),
    /// It is done already.
    Replay(Outcome),
}

/// A claim that stands as long as the caller's transaction does. Rolling back takes it back.
#[derive(Debug)]
#[must_use = "finish it in the same transaction, or roll back"]
pub struct Open {
    id: RecordId,
    fence: Fence,
    policy: Arc<Policy>,
}

/// Claims inside the caller's own transaction.
///
/// What it cannot promise: the caller chose how the transaction began (a deferred one may fail at its first write),
/// how durable its COMMIT is, and whether [`Open::finish`] is in it. A transaction that is committed without it leaves
/// a record that becomes uncertain once its lease has passed. [`run_once`] promises all that.
///
/// # Errors
/// A [`Problem`], which is a response, where the delivery does not run and has no stored answer.
pub fn begin(tx: &Transaction<'_>, command: &Command, policy: &Policy) -> Result<Begun, Problem> {
    match begun(tx, command, policy).map_err(Problem::from)? {
        Met::Run(open) => Ok(Begun::Run(open)),
        Met::Replay(outcome) => Ok(Begun::Replay(outcome)),
        Met::Refused(problem) => Err(problem),
    }
}

impl Open {
    /// The number of this run.
    pub fn attempt(&self) -> u32 {
        self.fence.attempt
    }

    /// Keeps the answer, in the transaction that the claim was made in.
    ///
    /// # Errors
    /// If the database fails, or the claim is not in this transaction any more.
    pub fn finish(self, tx: &Transaction<'_>, answer: Answer) -> Result<Outcome, StoreError> {
        let (terminal, kept) = answer.terminal(&self.policy);
        let event = Event::Finish(self.fence, Finish::Terminal(terminal));
        let place = connection::place(tx);
        match Own::new(tx, &place, now())?.apply(self.id, &self.policy, event, Some(kept))? {
            Applied { record: Some(record), refused: None } => {
                Ok(Outcome { answer, replayed: false, receipt: record.receipt() })
            }
            _ => Err(StoreError::misuse("the claim is not in this transaction: finish where begin was called")),
        }
    }
}

enum Met {
    Run(Open),
    Replay(Outcome),
    Refused(Problem),
}

fn now() -> Timestamp {
    Clock::system().now()
}

/// The delivery meets its record inside the transaction; at most twice, if the record is bound under another profile.
fn begun(tx: &Transaction<'_>, command: &Command, policy: &Policy) -> Result<Met, StoreError> {
    let place = connection::place(tx);
    let mut own = Own::new(tx, &place, now())?;
    let policy = Arc::new(policy.clone());
    let mut ask = command.ask(&policy);
    let mut told = own.deliver(&ask)?;
    if let Say::OtherProfile(_) = told.say {
        command.ask_again(&mut ask, told.profile)?;
        told = own.deliver(&ask)?;
    }
    Ok(match (told.say, &told.found) {
        (Say::Run(fence), Some(found)) => Met::Run(Open { id: found.id, fence, policy }),
        (Say::Wait, _) => Met::Refused(answer::refusal(Code::OperationInProgress, &told, &ask.key, &ask.policy)),
        _ => match answer::outcome(&told, &ask) {
            Ok(outcome) => Met::Replay(outcome),
            Err(problem) => Met::Refused(problem),
        },
    })
}
