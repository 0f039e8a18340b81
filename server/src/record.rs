//! A record as an application sees it: looked at, and settled by whoever found out how its command ended.

use samekey_core::claim::decide::without_running;
use samekey_core::claim::{self, Event, Reason, State, transition};
use samekey_core::problem::Code;
use samekey_core::{Actor, Key, Policy, Timestamp};

use crate::command::{Answer, Command, Fingerprint};
use crate::problem::Problem;
use crate::store::{Applied, Found, Note, RecordId, Store, StoreError};

/// What the store knows of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its name.
    pub id: RecordId,
    /// What was looked at, and when. Whoever settles the record says it again.
    pub seen: Revision,
    /// The operation under which it was made.
    pub operation: String,
    /// Its state.
    pub state: State,
    /// Why it is so.
    pub reason: Option<Reason>,
    /// The number of the last run.
    pub attempt: u32,
    /// When the key was first seen.
    pub created_at: Timestamp,
    /// When it ended or was released.
    pub finished_at: Option<Timestamp>,
    /// Until when its answer is replayed.
    pub expires_at: Option<Timestamp>,
    /// Uncertain: before this moment something may still be under way.
    pub settle_after: Option<Timestamp>,
    /// The status of its answer.
    pub status: Option<u16>,
    /// The id of what was made.
    pub result_id: Option<String>,
}

/// A record as it was at one moment: settling it takes no effect if anything happened to it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    number: u64,
    looked_at: Timestamp,
}

impl Revision {
    /// Counts the writes of the record.
    pub fn number(self) -> u64 {
        self.number
    }

    /// When it was looked at.
    pub fn looked_at(self) -> Timestamp {
        self.looked_at
    }
}

/// How an uncertain record ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// It happened; this is its answer, a 2xx or 3xx.
    Completed(Answer),
    /// It failed for good; this is its answer. Effects that are open were not applied.
    Failed(Answer),
    /// It did not happen, and may run again. Effects that are open were not applied.
    Released,
}

impl Record {
    fn new(found: Found, looked_at: Timestamp) -> Self {
        let Found { id, operation, record, .. } = found;
        Self {
            id,
            seen: Revision { number: record.revision, looked_at },
            operation,
            state: record.state,
            reason: record.reason,
            attempt: record.fence.attempt,
            created_at: record.created_at,
            finished_at: record.finished_at,
            expires_at: record.expires_at,
            settle_after: record.settle_after,
            status: record.status_code,
            result_id: record.result_id,
        }
    }
}

impl Store {
    /// What is known of a key, if anything is.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn look(&self, actor: &Actor, operation: &str, key: &Key) -> Result<Option<Record>, StoreError> {
        // Finding a record takes no fingerprint.
        let nothing = Fingerprint::of_nothing();
        let command = Command::new(actor.clone(), operation.to_owned(), key.clone(), nothing);
        // Before the look: what happens meanwhile makes another revision, or counts as not seen.
        let looked_at = self.now();
        let found = self.find(&command.ask(&Policy::new(operation.to_owned()).into())).await?;
        Ok(found.map(|found| Record::new(found, looked_at)))
    }

    /// Settles an uncertain record, by what was found out about it outside. `seen` is the revision that was looked at
    /// before that; `by` and `why` are kept in the record's trail.
    ///
    /// Where this closes an effect that is open, the record must have been looked at after `settle_after`: before, what
    /// was not seen may still come.
    ///
    /// # Errors
    /// A [`Problem`] that says how the record stands, if it is not uncertain, changed since, or was looked at too early.
    pub async fn settle(
        &self,
        id: RecordId,
        seen: Revision,
        to: Settlement,
        by: &str,
        why: &str,
    ) -> Result<(), Problem> {
        let Some(found) = self.by_id(id).await? else { return Err(forgotten()) };
        let policy = self.contract_of(&found.operation);
        let ended = |answer: Answer| {
            let (terminal, stored) = answer.terminal(&policy);
            (transition::Settlement::Ended(terminal), Some(stored))
        };
        let (settlement, response) = match to {
            Settlement::Released => (transition::Settlement::Released, None),
            Settlement::Completed(answer) if is_success(&answer) => ended(answer),
            Settlement::Failed(answer) if !is_success(&answer) => ended(answer),
            Settlement::Completed(answer) | Settlement::Failed(answer) => {
                let status = answer.status.as_u16();
                let why =
                    format!("an answer of {status} contradicts the settlement: 2xx and 3xx complete, others fail");
                return Err(StoreError::misuse(why).into());
            }
        };
        let Revision { number: revision, looked_at } = seen;
        let event = Event::Operator { revision, looked_at, force: false, settlement };
        let note = Note { who: Some(by.to_owned()), why: Some(why.to_owned()) };
        match self.apply_noted(id, policy, event, response, note).await? {
            Applied { refused: None, record: Some(_) } => Ok(()),
            Applied { record: None, .. } => Err(forgotten()),
            Applied { record: Some(record), .. } => {
                Err(not_settled(&record, revision, self.now()).about(found.operation))
            }
        }
    }
}

fn is_success(answer: &Answer) -> bool {
    (200..400).contains(&answer.status.as_u16())
}

fn forgotten() -> Problem {
    Problem::new(Code::ClaimNotFound, "No record has this name: it was never made, or is forgotten.")
}

fn not_settled(record: &claim::Record, revision: u64, now: Timestamp) -> Problem {
    let problem = match record.state {
        State::Uncertain if record.revision != revision => Problem::new(
            Code::OutcomeUncertain,
            "Something happened to it since it was looked at. Look again, then settle it.",
        ),
        State::Uncertain => {
            let wait = record.settle_after.map_or_else(Default::default, |moment| moment.since(now));
            let why = "Something may still be under way, and come after whoever looked. Look again when that is over.";
            Problem::new(Code::OutcomeUncertain, why).retry_after(wait)
        }
        state => Problem::new(without_running(state), "It is not uncertain any more, or not yet. Nothing was written."),
    };
    problem.receipt(record.receipt())
}
