//! The claim as a guard: end it, or drop it and let time tell.

use std::sync::Arc;

use samekey_core::Policy;
use samekey_core::claim::{Finish, Reason, Say};
use samekey_core::problem::Code;
use samekey_core::select::Profile;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::attempt::{Asked, Attempt, Otherwise, to_its_end};
use super::effect::{EffectError, ProviderKey, input_of};
use super::wait::wait;
use crate::command::{Answer, Command, Outcome};
use crate::layer::answer;
use crate::problem::Problem;
use crate::store::{Applied, Ask, Hold, Note, Store, StoreError, StoredResponse, Told};

/// The longest reason that a record's trail keeps, in characters.
pub(crate) const MAX_WHY_CHARS: usize = 500;

/// What asking for a claim came to. Exhaustive on purpose: there is nothing else to handle but the refusal.
#[derive(Debug)]
pub enum Claimed {
    /// The command is yours to run, and nobody else's.
    Run(Claim),
    /// It ran before; this was its answer.
    Replay(Outcome),
}

/// The right to run one command. Its lease is renewed while this lives, up to the policy's `timeout`.
///
/// **Dropped unfinished** nothing is written: nobody knows what its holder did, so the record becomes uncertain when
/// its lease has passed. Under [`Policy::journaled`], where every effect goes through [`Claim::effect`], a claim that
/// is dropped while no effect is open is released at once (by a task on the runtime it was claimed on): the same key
/// may run again, and what was finished is not called again.
#[derive(Debug)]
#[must_use = "complete, fail, release it, or say that it is uncertain: dropped, it becomes uncertain by itself"]
pub struct Claim {
    command: Command,
    attempt: Arc<Attempt>,
    hold: Option<Hold>,
    on_drop: OnDrop,
    runtime: Handle,
}

/// What a claim that is dropped says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    /// Nobody was given it, or every effect is in the journal and ended: it is released.
    Release,
    /// Time tells.
    Nothing,
}

impl Store {
    /// Claims a command; needs a tokio runtime, on which its end is written even if the caller goes away. Waits up to the policy's `default_wait` for one that is running.
    ///
    /// The command's operation is the name under which the record stands; of the policy's names its aliases count.
    /// Dropping the future takes nothing back that was written, but a claim that nobody was given is released.
    ///
    /// # Errors
    /// A [`Problem`], which is a response, where the command neither runs nor has a stored answer.
    pub async fn claim(&self, command: &Command, policy: &Policy) -> Result<Claimed, Problem> {
        let policy = match policy.check() {
            Ok(()) => Arc::new(policy.clone()),
            Err(error) => {
                let why = format!("the policy of {} cannot hold: {error}", policy.operation);
                return Err(StoreError::misuse(why).into());
            }
        };
        // Whoever looks after the record in the background finds its contract by the name it stands under.
        self.policies().add_under(&policy, Some(command.operation.to_string()));
        let mut ask = command.ask(&policy);
        let mut asked_again = false;
        loop {
            let told = match self.peek(&ask).await? {
                Some(told) => told,
                None => match self.win(&ask, command).await? {
                    Ok(claim) => return Ok(Claimed::Run(claim)),
                    Err(told) => *told,
                },
            };
            match told.say {
                Say::OtherProfile(_) if !asked_again => {
                    asked_again = true;
                    command.ask_again(&mut ask, told.profile)?;
                    ask.holder = crate::new_holder();
                }
                Say::Wait => {
                    let Some(_seat) = self.waiting_room().enter(&ask.actor, &ask.key) else {
                        return Err(answer::refusal(Code::OperationInProgress, &told, &ask.key, &ask.policy));
                    };
                    let told = wait(self, &ask, told, policy.default_wait).await?;
                    return answer::outcome(&told, &ask).map(Claimed::Replay);
                }
                _ => return answer::outcome(&told, &ask).map(Claimed::Replay),
            }
        }
    }

    /// A delivery's turn, in a task of its own, so that no hang-up can fall between the claim and its guard.
    async fn win(&self, ask: &Ask, command: &Command) -> Result<Result<Claim, Box<Told>>, Problem> {
        let (give, given) = oneshot::channel();
        let (store, ask, command) = (self.clone(), ask.clone(), command.clone());
        let turn = async move {
            let asked = Asked::now(&store);
            let won = match store.deliver(ask.clone()).await {
                Err(error) => Err(Problem::from(error)),
                Ok(told) => match Attempt::won(&store, &ask, &told, asked) {
                    None => Ok(Err(Box::new(told))),
                    Some((attempt, hold)) => attempt.prove_if_late(asked).await.map(|()| {
                        let attempt = Arc::new(attempt);
                        let runtime = Handle::current();
                        Ok(Claim { command, attempt, hold: Some(hold), on_drop: OnDrop::Release, runtime })
                    }),
                },
            };
            // If nobody is there to be given it, it is dropped here, and released.
            drop(give.send(won));
        };
        tokio::spawn(turn.in_current_span());
        match given.await {
            Ok(won) => won.map(|won| {
                won.map(|mut claim| {
                    claim.on_drop = claim.unless_open();
                    claim
                })
            }),
            // The runtime is shutting down.
            Err(_) => Err(StoreError::Closed.into()),
        }
    }
}

impl Claim {
    /// The command.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// The number of this run: greater than 1 after one that was released, or whose outcome was declared repeatable.
    pub fn attempt(&self) -> u32 {
        self.attempt.fence.attempt
    }

    /// How a claim is dropped while no effect is open.
    fn unless_open(&self) -> OnDrop {
        if self.attempt.policy.journaled { OnDrop::Release } else { OnDrop::Nothing }
    }

    /// Calls an external system once. The call is noted in the journal, in the transaction that proves the claim, before
    /// `call` is; a call that ended is not made again, its result is returned.
    ///
    /// `call` gets a key to hand on to the external system and says how it ended:
    /// * `Ok`: it was answered. A refusal is an answer, too (a declined card): make it part of the result.
    /// * [`EffectError::not_done`]: nothing was applied and nothing is under way. It may be called again.
    /// * anything else, or a panic, or a future that is dropped: nobody knows. It stays open, and until somebody finds out
    ///   the command is neither released nor failed. It is not called again.
    ///
    /// The result is kept as JSON of up to [`MAX_RESULT_BYTES`](super::MAX_RESULT_BYTES). What cannot be kept is returned
    /// this once, and the call counts as made; a later attempt hears [`EffectError::NoResult`].
    ///
    /// A call that is under way when the record may first be settled from outside (`probe_after` past lease or deadline,
    /// whichever is first, less a second) is dropped. What it detached or blocks on goes on: no journal can reach it.
    ///
    /// # Errors
    /// See [`EffectError`]. They compose with `?` into a [`Problem`].
    pub async fn effect<T, F, Fut>(&mut self, name: &str, call: F) -> Result<T, EffectError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<T, EffectError>>,
    {
        self.call(name, None, call).await
    }

    /// As [`Claim::effect`], for one input: another one under the same name is [`EffectError::OtherInput`], so that a later
    /// attempt cannot take the result of another call for its own.
    ///
    /// # Errors
    /// See [`EffectError`].
    pub async fn effect_with<I, T, F, Fut>(&mut self, name: &str, input: &I, call: F) -> Result<T, EffectError>
    where
        I: Serialize + ?Sized,
        T: Serialize + DeserializeOwned,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<T, EffectError>>,
    {
        let input = input_of(input)?;
        self.call(name, Some(input), call).await
    }

    async fn call<T, F, Fut>(
        &mut self,
        name: &str,
        input: Option<samekey_core::claim::effects::Input>,
        call: F,
    ) -> Result<T, EffectError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(ProviderKey) -> Fut,
        Fut: Future<Output = Result<T, EffectError>>,
    {
        let before = std::mem::replace(&mut self.on_drop, OnDrop::Nothing);
        let told = self.attempt.effect(name, input, call).await;
        // Where the store failed its beginning may be written all the same.
        if !matches!(told, Err(EffectError::Unknown(_) | EffectError::Store(_))) {
            self.on_drop = before;
        }
        told
    }

    /// Ends the command with its answer, which every other delivery gets. A 4xx or 5xx fails it, as [`Claim::fail`] does.
    ///
    /// While the store fails this is held and tried until the deadline, also if the future is dropped.
    ///
    /// # Errors
    /// If it could not be stored, or the claim was lost. If somebody settled the record meanwhile, that answer counts:
    /// it is returned as a replay.
    pub async fn complete(self, answer: Answer) -> Result<Outcome, Problem> {
        let (terminal, stored) = answer.terminal(&self.attempt.policy);
        let attempt = Arc::clone(&self.attempt);
        let applied = self.end(Finish::Terminal(terminal), Some(stored), None).await;
        match attempt.ended(applied).await {
            Ok(record) => Ok(Outcome { answer, replayed: false, receipt: record.receipt() }),
            Err(Otherwise::Replay(outcome)) => Ok(*outcome),
            Err(Otherwise::Refused(problem)) => Err(problem),
            Err(Otherwise::Stale(record)) => Err(attempt.stale(record.as_deref())),
        }
    }

    /// Ends the command with a refusal or failure, which every other delivery gets. An answer of 2xx or 3xx contradicts
    /// that and makes the outcome uncertain.
    ///
    /// # Errors
    /// As [`Claim::complete`]; and while an effect is open nobody knows that the command failed: it is uncertain.
    pub async fn fail(self, answer: Answer) -> Result<Outcome, Problem> {
        if (200..400).contains(&answer.status.as_u16()) {
            let why = format!("it was to fail with the status {}", answer.status.as_u16());
            return Err(self.uncertain(&why).await?);
        }
        self.complete(answer).await
    }

    /// Says that nothing happened: the same key may run again.
    ///
    /// # Errors
    /// As [`Claim::complete`]; and while an effect is open, or after an attempt whose outcome is unknown, nobody knows
    /// that: it is uncertain.
    pub async fn release(self) -> Result<(), Problem> {
        let attempt = Arc::clone(&self.attempt);
        let applied = self.end(Finish::Released { not_before: None }, None, None).await;
        match attempt.ended(applied).await {
            Ok(_) => Ok(()),
            Err(Otherwise::Refused(problem)) => Err(problem),
            Err(Otherwise::Replay(outcome)) => Err(super::stale(Some(outcome.receipt)).about(&attempt.operation)),
            Err(Otherwise::Stale(record)) => Err(attempt.stale(record.as_deref())),
        }
    }

    /// Says that nobody knows how it ended. `why` is kept in the record's trail, for whoever settles it. Returns what the
    /// caller hears.
    ///
    /// # Errors
    /// If it could not be stored, or the claim was lost.
    pub async fn uncertain(self, why: &str) -> Result<Problem, Problem> {
        let attempt = Arc::clone(&self.attempt);
        let why: String = why.chars().take(MAX_WHY_CHARS).collect();
        let applied = self.end(Finish::Uncertain(Reason::Holder), None, Some(why.clone())).await;
        match attempt.ended(applied).await {
            Ok(record) => {
                attempt.tell_uncertain(Reason::Holder, &why, None);
                Ok(attempt.uncertain("whoever ran it says so").receipt(record.receipt()))
            }
            Err(Otherwise::Refused(problem)) => Err(problem),
            Err(Otherwise::Replay(outcome)) => Err(super::stale(Some(outcome.receipt)).about(&attempt.operation)),
            Err(Otherwise::Stale(record)) => Err(attempt.stale(record.as_deref())),
        }
    }

    /// Writes the end in a task of its own, which goes on holding the claim.
    async fn end(
        mut self,
        finish: Finish,
        response: Option<StoredResponse>,
        why: Option<String>,
    ) -> Result<Applied, StoreError> {
        self.on_drop = OnDrop::Nothing;
        to_its_end(async move {
            let until = self.attempt.until();
            self.attempt.finish(finish, response, Note { who: None, why }, until).await
        })
        .await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Nothing {
            return;
        }
        let (attempt, hold) = (Arc::clone(&self.attempt), self.hold.take());
        // On a runtime that is shutting down nobody writes it: its lease lapses.
        self.runtime.spawn(
            async move {
                let until = attempt.until();
                let released = Finish::Released { not_before: None };
                let applied = attempt.finish(released, None, Note::default(), until).await;
                drop(hold);
                // Nobody is there to be told; what went wrong is in the log.
                drop(attempt.ended(applied).await);
            }
            .in_current_span(),
        );
    }
}

impl Command {
    /// The delivery of this command, under its own profile.
    pub(crate) fn ask(&self, policy: &Arc<Policy>) -> Ask {
        Ask {
            actor: self.actor.clone(),
            operation: self.operation.clone(),
            also: policy.aliases.iter().chain(&self.also).cloned().collect(),
            configured: true,
            named: None,
            key: self.key.clone(),
            fingerprint: self.fingerprint.taken,
            profile: Arc::clone(&self.fingerprint.profile),
            request_id: self.request_id.as_deref().map(Arc::from),
            holder: crate::new_holder(),
            policy: Arc::clone(policy),
            fence_credentials: false,
        }
    }

    /// The same delivery under the profile that its record is bound under.
    pub(crate) fn ask_again(&self, ask: &mut Ask, profile: Option<Profile>) -> Result<(), StoreError> {
        let (Some(again), Some(profile)) = (&self.fingerprint.again, profile) else {
            return Err(StoreError::misuse(
                "this key is bound under other significant fields, and the payload is not at hand",
            ));
        };
        ask.fingerprint = again(&profile);
        ask.profile = Arc::new(profile);
        Ok(())
    }
}

/// Bounds on those who wait for claims of the library, as the layer has them by default.
pub(crate) fn waiting_room() -> super::WaitingRoom {
    let limits = crate::Limits::default();
    super::WaitingRoom::new(limits.max_waiters, limits.waiters_per_key)
}
