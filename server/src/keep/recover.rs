//! Outcomes that nobody knows: asked about by the operation's probe, and given up in the end.
//!
//! A look is taken in the store before anybody is asked, so that of several processes one asks; it is lost with its
//! process, and the next one is due after the time that a question may take and a pause. What the answer is worth
//! is for core to say, which compares the revision and the moment that were asked about.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use samekey_core::claim::transition::Probed as Verdict;
use samekey_core::claim::{Event, backoff};
use samekey_core::{Policy, Recovery, Timestamp};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Duty;
use crate::observe;
use crate::probe::{About, Probe, Probed};
use crate::store::{Applied, By, Case, Look, Note, Store, StoreError, WeakStore};

/// Between two looks at what is due; records of other processes become due without a word here.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// While questions are under way, more may be asked as soon as some of them are answered.
const ASKING_PAUSE: Duration = Duration::from_millis(250);

/// Records of one look.
const PAGE: usize = 128;

/// Questions under way about one operation: its service may be in trouble.
const MOST_PER_OPERATION: usize = 4;
/// Questions under way in all; a silent service must not keep the others' records waiting.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Recover {
    /// Each gives the operation that it asks about.
    questions: JoinSet<String>,
    under_way: HashMap<String, usize>,
}

impl Duty for Recover {
    const NAME: &'static str = "recover";

    async fn attend(&mut self, store: &Store) -> Result<Duration, StoreError> {
        self.collect();
        let mut after = None;
        let next = loop {
            let cases = store.uncertain(after, PAGE).await?;
            for case in cases.list {
                self.look_at(store, case).await?;
            }
            match cases.more {
                Some(more) => after = Some(more),
                None => break cases.next,
            }
        };
        if !self.questions.is_empty() {
            return Ok(ASKING_PAUSE);
        }
        let until = next.map_or(LONGEST_PAUSE, |next| next.since(store.now()));
        Ok(until.clamp(LEAST_PAUSE, LONGEST_PAUSE))
    }
}

impl Recover {
    fn collect(&mut self) {
        while let Some(ended) = self.questions.try_join_next() {
            let count = ended.ok().and_then(|operation| self.under_way.get_mut(&operation));
            if let Some(count) = count {
                *count = count.saturating_sub(1);
            }
        }
        self.under_way.retain(|_, count| *count > 0);
    }

    async fn look_at(&mut self, store: &Store, case: Case) -> Result<(), StoreError> {
        // The contract of today, whatever held when the record was made. Without one it is another process's.
        let Some(policy) = store.policies().of(&case.found.operation, case.configured) else { return Ok(()) };
        let now = store.now();
        let settle_after = case.found.record.settle_after.unwrap_or(now);
        if now >= settle_after + policy.give_up {
            return give_up(store, &case, policy).await;
        }
        if policy.recovery != Recovery::Probe {
            return Ok(());
        }
        let Some(probe) = store.probes().of(&policy.operation) else { return Ok(()) };
        let under_way = self.under_way.get(&case.found.operation).copied().unwrap_or(0);
        if now >= settle_after + probe.max_age
            || under_way >= MOST_PER_OPERATION
            || self.questions.len() >= MOST
            || !store.trusts_times(policy.timeout + policy.probe_after())
        {
            return Ok(());
        }
        let pause = backoff::pause(case.looks, chance());
        let look = Look {
            id: case.found.id,
            revision: case.found.record.revision,
            looks: case.looks,
            next: now + probe.timeout + pause,
        };
        if store.take_look(look).await? {
            let about = about(store, &case).await?;
            *self.under_way.entry(case.found.operation.clone()).or_default() += 1;
            let question = Question { case, policy, probe, next: look.next };
            self.questions.spawn(question.put(store.downgrade(), about));
        }
        Ok(())
    }
}

async fn about(store: &Store, case: &Case) -> Result<About, StoreError> {
    Ok(About {
        provider_key: store.provider_key(&case.actor, &case.found.operation, &case.key, ""),
        effects: store.effects(case.found.id).await?,
        actor: case.actor.clone(),
        operation: case.found.operation.clone(),
        key: case.key.clone(),
        attempt: case.found.record.fence.attempt,
        reason: case.found.record.reason,
    })
}

async fn give_up(store: &Store, case: &Case, policy: Arc<Policy>) -> Result<(), StoreError> {
    let note = Note { who: None, why: Some("nobody settled it in time".into()) };
    let applied = store.apply_noted(case.found.id, policy, Event::GiveUp, None, note).await?;
    log_refused(store, case, &applied, By::Sweeper);
    Ok(())
}

/// One question about one record, whose look was taken.
struct Question {
    case: Case,
    policy: Arc<Policy>,
    probe: Probe,
    /// When the next look is due.
    next: Timestamp,
}

impl Question {
    /// Asks, and settles if the answer says enough. Gives the operation. It does not keep the store open meanwhile.
    async fn put(self, store: WeakStore, about: About) -> String {
        let operation = self.case.found.operation.clone();
        let Some(asked_at) = store.upgrade().map(|store| store.now()) else { return operation };
        let began = Instant::now();
        // A task of its own: a probe that panics is one that failed.
        let mut asking = tokio::spawn(self.probe.ask(about));
        let said = match timeout(self.probe.timeout, &mut asking).await {
            Ok(Ok(said)) => said.map_err(|error| error.to_string()),
            Ok(Err(_)) => Err("the probe panicked".to_owned()),
            Err(_) => {
                asking.abort();
                Err(format!("no answer within {:?}", self.probe.timeout))
            }
        };
        if let Some(store) = store.upgrade() {
            self.settle(&store, said, asked_at, began.elapsed()).await;
        }
        operation
    }

    async fn settle(&self, store: &Store, said: Result<Probed, String>, asked_at: Timestamp, took: Duration) {
        let (result, verdict, response, why) = match said {
            Ok(Probed::Done(found)) => {
                let why = format!("the probe found its answer, {}", found.status);
                let (terminal, stored) = found.terminal(&self.policy);
                (observe::Probed::Happened, Verdict::Done(terminal), Some(stored), why)
            }
            Ok(Probed::Absent) => {
                (observe::Probed::Never, Verdict::Absent, None, "the probe found nothing of it".to_owned())
            }
            Ok(Probed::Unclear(why)) => (observe::Probed::Unclear, Verdict::Unclear, None, why),
            Err(why) => (observe::Probed::Error, Verdict::Unclear, None, why),
        };
        self.log_probe(store, result, &why, took);
        if verdict == Verdict::Unclear {
            return;
        }
        let Case { found, .. } = &self.case;
        let event = Event::Probe { revision: found.record.revision, asked_at, verdict };
        let note = Note { who: None, why: Some(why) };
        match store.apply_noted(found.id, Arc::clone(&self.policy), event, response, note).await {
            Ok(applied) => log_refused(store, &self.case, &applied, By::Probe),
            // The look after this one asks again.
            Err(error) => {
                tracing::warn!(event = "store_error", record = found.id.0, %error, "what a probe found could not be written");
            }
        }
    }

    fn log_probe(&self, store: &Store, result: observe::Probed, why: &str, took: Duration) {
        let Case { found, key, configured, .. } = &self.case;
        let sure = matches!(result, observe::Probed::Happened | observe::Probed::Never);
        observe::probed(&observe::Probe {
            label: &observe::label(*configured, &self.policy.operation),
            operation: &found.operation,
            record: found.id,
            attempt: found.record.fence.attempt,
            key_hash: &store.log_hash("key", key.expose()),
            result,
            age: store.now().since(found.record.created_at),
            took,
            again: (!sure).then(|| self.next.since(store.now())),
            why,
        });
    }
}

/// What was settled is told where it is written.
fn log_refused(store: &Store, case: &Case, applied: &Applied, by: By) {
    if applied.refused.is_none() {
        return;
    }
    let Case { found, key, .. } = case;
    let state = applied.record.as_ref().map_or("forgotten", |record| record.state.as_str());
    observe::not_settled(&found.operation, found.id, &store.log_hash("key", key.expose()), state, by);
}

fn chance() -> u32 {
    let mut bytes = [0; 4];
    crate::random(&mut bytes);
    u32::from_ne_bytes(bytes)
}
