//! Claim, effect and answer in one transaction of the application's own PostgreSQL database.
//!
//! The strongest mode: there is no moment at which the effect happened and the answer is not stored. It covers what
//! the transaction writes, and nothing else: a mail or a charge made inside is an effect outside the database.
//!
//! ```no_run
//! use samekey::postgres::{self, Begun, tokio_postgres};
//! use samekey::{Answer, Command, Outcome, Policy};
//! use http::StatusCode;
//!
//! # type BoxError = Box<dyn std::error::Error + Send + Sync>;
//! async fn create(
//!     client: &mut tokio_postgres::Client, command: &Command, policy: &Policy, title: &str,
//! ) -> Result<Outcome, BoxError> {
//!     let tx = client.transaction().await?;
//!     let open = match postgres::begin(&tx, command, policy).await? {
//!         Begun::Run(open) => open,
//!         Begun::Replay(outcome) => return Ok(outcome),
//!     };
//!     let row = tx.query_one("INSERT INTO tickets (title) VALUES ($1) RETURNING id", &[&title]).await?;
//!     let id: i64 = row.get(0);
//!     let outcome = open.finish(&tx, Answer::json(StatusCode::CREATED, &id).result_id(id.to_string())).await?;
//!     tx.commit().await?;
//!     Ok(outcome)
//! }
//! ```
//!
//! [`run_once`] does the same around a closure. A second delivery of a key waits for the transaction of the first, as
//! long as `lock_timeout` allows, and hears `operation_in_progress` beyond.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use samekey_core::Policy;
use samekey_core::claim::{Event, Fence, Finish, Say};
use samekey_core::problem::Code;
use tokio_postgres::{Client, IsolationLevel, SimpleQueryMessage, Transaction};

use crate::RunError;
use crate::command::{Answer, Command, Outcome};
use crate::layer::answer;
use crate::problem::Problem;
use crate::store::postgres::error::is_lock_timeout;
use crate::store::postgres::own::{self, Own, error_of};
use crate::store::{Applied, RecordId, StoreError};

pub use tokio_postgres;

/// The tables, for applications that have a migration tool of their own. Running it again changes nothing.
pub const SCHEMA: &str = crate::store::postgres::TABLES;

/// Makes the tables, if they are missing, or brings them up to date.
///
/// # Errors
/// If the database cannot be written, or a newer samekey wrote its tables.
pub async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    own::migrate(client).await
}

/// Runs `effect` if no delivery of this command did, and keeps its answer in the same transaction.
///
/// `Ok(answer)` of any status is terminal: it is stored and replayed. `Err` rolls everything back and leaves
/// nothing: the same key may run again.
///
/// The transaction is READ COMMITTED and its COMMIT durable, whatever the connection's own settings. A delivery that
/// comes while another one of the same key runs waits for it, up to `default_wait` of the policy.
///
/// # Errors
/// [`RunError::Refused`] where the delivery does not run and has no stored answer; it is a response.
/// [`RunError::Store`] if the connection is inside a transaction, or the database fails. If COMMIT itself failed, the
/// retry tells what happened.
pub async fn run_once<E>(
    client: &mut Client,
    command: &Command,
    policy: &Policy,
    effect: impl AsyncFnOnce(&Transaction<'_>) -> Result<Answer, E>,
) -> Result<Outcome, RunError<E>> {
    check(client).await?;
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .await
        .map_err(|error| error_of(&error))?;
    let waits = prepare(&tx, policy.default_wait).await.map_err(|error| error_of(&error))?;
    match begun(&tx, command, policy).await {
        Ok(Met::Run(open)) => {
            set(&tx, "lock_timeout", &waits).await.map_err(|error| error_of(&error))?;
            let answer = effect(&tx).await.map_err(RunError::Effect)?;
            let outcome = open.finish(&tx, answer).await?;
            tx.commit().await.map_err(|error| error_of(&error))?;
            Ok(outcome)
        }
        Ok(Met::Replay(outcome)) => Ok(outcome),
        Ok(Met::Refused(problem)) => {
            // A refusal may have written that the outcome is unknown (after a restore).
            tx.commit().await.map_err(|error| error_of(&error))?;
            Err(RunError::Refused(problem))
        }
        Err(Failed::Waited(problem)) => Err(RunError::Refused(*problem)),
        Err(Failed::Store(error)) => Err(error.into()),
    }
}

/// Refuses what would tear claim and effect apart.
async fn check(client: &Client) -> Result<(), StoreError> {
    // One simple query is one transaction, and `now()` its beginning; inside another, it is the time of its BEGIN.
    let sql = "SELECT now() = statement_timestamp(), to_regclass('pg_temp.idempotency_keys') IS NULL";
    let said = client.simple_query(sql).await.map_err(|error| error_of(&error))?;
    let is = |column: usize| {
        said.iter().any(|part| matches!(part, SimpleQueryMessage::Row(row) if row.get(column) == Some("t")))
    };
    if !is(0) {
        return Err(StoreError::misuse(
            "the connection is inside a transaction, which may still be rolled back; use postgres::begin there",
        ));
    }
    if !is(1) {
        return Err(StoreError::misuse("a temporary table hides samekey's own, and would forget every key"));
    }
    Ok(())
}

/// Makes COMMIT durable and bounds the wait for the key; returns how long the connection waits otherwise.
async fn prepare(tx: &Transaction<'_>, wait: Duration) -> Result<String, tokio_postgres::Error> {
    let row =
        tx.query_one("SELECT current_setting('lock_timeout'), current_setting('synchronous_commit')", &[]).await?;
    if row.try_get::<_, &str>(1)? == "off" {
        set(tx, "synchronous_commit", "on").await?;
    }
    // 0 would be for ever.
    set(tx, "lock_timeout", &wait.as_millis().clamp(1, 600_000).to_string()).await?;
    row.try_get(0)
}

async fn set(tx: &Transaction<'_>, name: &str, value: &str) -> Result<(), tokio_postgres::Error> {
    tx.execute("SELECT set_config($1, $2, true)", &[&name, &value]).await.map(drop)
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

/// Claims inside the caller's own transaction, which has to be READ COMMITTED, PostgreSQL's default: a snapshot that
/// is older than the claim could not see the record that another delivery made meanwhile.
///
/// It waits for a transaction of another delivery of the key as long as `lock_timeout` allows; beyond, the refusal is
/// `operation_in_progress`, and the transaction is to be rolled back.
///
/// What it cannot promise: the caller chose how durable COMMIT is, and whether [`Open::finish`] is in it. A transaction
/// that is committed without it leaves a record that becomes uncertain once its lease has passed. [`run_once`]
/// promises both.
///
/// # Errors
/// A [`Problem`], which is a response, where the delivery does not run and has no stored answer.
pub async fn begin(tx: &Transaction<'_>, command: &Command, policy: &Policy) -> Result<Begun, Problem> {
    match begun(tx, command, policy).await {
        Ok(Met::Run(open)) => Ok(Begun::Run(open)),
        Ok(Met::Replay(outcome)) => Ok(Begun::Replay(outcome)),
        Ok(Met::Refused(problem)) => Err(problem),
        Err(Failed::Waited(problem)) => Err(*problem),
        Err(Failed::Store(error)) => Err(error.into()),
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
    pub async fn finish(self, tx: &Transaction<'_>, answer: Answer) -> Result<Outcome, StoreError> {
        let (terminal, kept) = answer.terminal(&self.policy);
        let event = Event::Finish(self.fence, Finish::Terminal(terminal));
        let own = Own::new(tx).await.map_err(|error| error_of(&error))?;
        match own.apply(self.id, &self.policy, event, Some(kept)).await? {
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

enum Failed {
    /// Another delivery of the key held its lock for too long.
    Waited(Box<Problem>),
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The delivery meets its record inside the transaction; at most twice, if the record is bound under another profile.
async fn begun(tx: &Transaction<'_>, command: &Command, policy: &Policy) -> Result<Met, Failed> {
    let of = |error| Failed::Store(error_of(&error));
    let isolation = tx.query_one("SHOW transaction_isolation", &[]).await.map_err(of)?;
    let isolation: &str = isolation.get(0);
    if isolation != "read committed" {
        let what = format!("the transaction is {}; samekey needs READ COMMITTED", isolation.to_uppercase());
        return Err(StoreError::misuse(what).into());
    }
    let policy = Arc::new(policy.clone());
    let mut ask = command.ask(&policy);
    let own = Own::new(tx).await.map_err(of)?;
    match own.lock(&ask).await {
        Ok(()) => {}
        Err(error) if is_lock_timeout(&error) => {
            let detail = "Another delivery of this command is running.";
            let problem = Problem::new(Code::OperationInProgress, detail).retry_after(Duration::from_secs(1));
            return Err(Failed::Waited(Box::new(problem)));
        }
        Err(error) => return Err(of(error)),
    }
    let mut told = own.deliver(&ask).await?;
    if let Say::OtherProfile(_) = told.say {
        command.ask_again(&mut ask, told.profile)?;
        told = own.deliver(&ask).await?;
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
