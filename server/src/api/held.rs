//! The claim that a call names, as the store has it.

use std::sync::Arc;

use samekey_core::Policy;
use samekey_core::claim::{Effects, Record, State};
use samekey_core::problem::Code;

use super::asked::Asked;
use super::claim_id::ClaimId;
use crate::observe;
use crate::problem::Problem;
use crate::store::{Case, Store};

/// A claim, and the record that it is about.
pub(super) struct Held {
    pub(super) store: Store,
    pub(super) id: ClaimId,
    pub(super) case: Case,
    /// The operation's contract, with the lease of the claim.
    pub(super) policy: Arc<Policy>,
}

impl Held {
    /// Of the call's first parameter. Whether the claim is still held, each write asks for itself.
    pub(super) async fn of(asked: &Asked) -> Result<Self, Problem> {
        let store = asked.store().clone();
        let Some(id) = ClaimId::parse(asked.param(0), &store) else {
            return Err(Problem::new(Code::ClaimNotFound, "This server gave no claim this name."));
        };
        let Some(case) = store.case(id.record).await? else { return Err(forgotten()) };
        let contract = store.contract_of(&case.found.operation);
        let policy = match contract.lease == id.lease {
            true => contract,
            false => Arc::new(Policy::clone(&contract).lease(id.lease)),
        };
        Ok(Self { store, id, case, policy })
    }

    fn record(&self) -> &Record {
        &self.case.found.record
    }

    /// What it says contradicts what the record says.
    pub(super) fn tell_stale(&self, state: State) {
        observe::stale_finish(&observe::StaleFinish {
            label: &observe::label(self.case.configured, &self.policy.operation),
            operation: &self.case.found.operation,
            record: self.id.record,
            attempt: self.id.fence.attempt,
            key_hash: &self.store.log_hash("key", self.case.key.expose()),
            state: state.as_str(),
        });
    }

    /// What is said of it while an effect was started and nobody said how it ended: nothing about the whole, either.
    pub(super) async fn no_effect_unfinished(&self) -> Result<(), Problem> {
        let Effects { open, .. } = self.record().effects;
        if open == 0 || self.record().fence != self.id.fence {
            return Ok(());
        }
        let effects = self.store.effects(self.id.record).await?;
        let unfinished: Vec<&str> =
            effects.iter().filter(|effect| effect.end.is_none()).map(|effect| effect.name.as_str()).collect();
        if unfinished.is_empty() {
            return Ok(());
        }
        let why = format!(
            "Say first how each effect ended that was started: {}. Where nobody knows, say that it is unknown.",
            unfinished.join(", ")
        );
        Err(Problem::new(Code::EffectUnfinished, why).member("effects", unfinished))
    }
}

/// The record is gone, and the claim with it.
pub(super) fn forgotten() -> Problem {
    Problem::new(Code::ClaimNotFound, "No record has this name: it was never made, or is forgotten.")
}

/// The claim is not held any more; how its record stands.
pub(super) fn stale(record: Option<&Record>) -> Problem {
    let Some(record) = record else { return forgotten() };
    let why = "Its lease or its deadline passed, it ended otherwise, or somebody settled its record. Stop: what is \
               still done under it counts no more.";
    let receipt = record.receipt();
    let problem = Problem::new(Code::ClaimStale, why).member("state", receipt.word.as_str());
    match receipt.attempt {
        Some(attempt) => problem.member("attempt", attempt),
        None => problem,
    }
}
