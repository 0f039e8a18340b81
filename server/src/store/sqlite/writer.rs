//! The one thread that writes.
//!
//! It takes what is queued, up to [`MAX_BATCH`] items, into one transaction: renewals and completions before
//! deliveries, so that no claim is called lapsed whose renewal was already here. Nobody is answered, and nobody is
//! woken, before COMMIT returned.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use samekey_core::{Policy, Timestamp};
use tokio::sync::oneshot;

use super::claims::{self, Setting};
use super::known::Known;
use super::leases::{self, Lost, Why};
use super::moved::{self, Moved};
use super::passed::Passed;
use super::space::Space;
use super::wal::Wal;
use super::{Shared, Trouble, cases, effects, sweep, vacuum};
use crate::observe;
use crate::store::hold::Lease;
use crate::store::{
    Applied, Ask, Change, EffectEnd, EffectNoted, EffectStart, EffectTold, Look, Policies, Purpose, StoreError, Swept,
    Told,
};

/// Beyond this, only latency grows: FULL costs nothing from here on.
const MAX_BATCH: usize = 128;

/// How often a store with waiters looks whether another process wrote.
const LOOK_ABROAD_EVERY: Duration = Duration::from_millis(75);

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked.
pub(super) enum Job {
    Deliver {
        ask: Box<Ask>,
        purpose: Purpose,
        /// Half the queue was full when this came.
        crowded: bool,
        reply: Reply<Told>,
    },
    Apply {
        change: Box<Change>,
        reply: Reply<Applied>,
    },
    StartEffect {
        start: Box<EffectStart>,
        policy: Arc<Policy>,
        reply: Reply<EffectTold>,
    },
    EndEffect {
        end: Box<EffectEnd>,
        reply: Reply<EffectNoted>,
    },
    Look {
        look: Look,
        reply: Reply<bool>,
    },
    Ready {
        reply: Reply<()>,
    },
    Sweep {
        policies: Arc<Policies>,
        reply: Reply<Swept>,
    },
    Vacuum {
        reply: Reply<bool>,
    },
    /// The writer's own, asked for at this moment of the monotonic clock.
    Renew(Vec<Lease>, Duration),
    Nudge,
    Close {
        reply: oneshot::Sender<()>,
    },
    #[cfg(test)]
    Hook(Box<dyn FnOnce(&Connection) + Send>),
}

impl Job {
    /// Whether somebody outside the store waits for it. Only such jobs fill the queue.
    pub(super) fn is_asked_for(&self) -> bool {
        !matches!(self, Self::Renew(..) | Self::Sweep { .. } | Self::Vacuum { .. } | Self::Look { .. })
    }
}

/// What a job came to, before COMMIT.
enum Outcome {
    Told(Told, bool),
    Applied(Applied, Option<(String, String)>),
    EffectTold(EffectTold),
    EffectNoted(EffectNoted),
    Looked(bool),
    Ready,
    Swept(Swept),
    Vacuumed(bool),
    Renewed(Vec<Lost>),
    Failed(StoreError),
}

/// Why a batch was rolled back.
enum Failed {
    /// The transaction did not begin: no item is at fault.
    ToBegin(StoreError),
    /// An item was refused.
    Inside(StoreError),
    /// COMMIT was not acknowledged; it may have happened all the same.
    ToCommit(StoreError),
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::ToBegin(error) | Failed::Inside(error) | Failed::ToCommit(error) => error,
        }
    }
}

pub(super) struct Writer {
    conn: Connection,
    jobs: mpsc::Receiver<Job>,
    shared: Arc<Shared>,
    space: Space,
    created_at: Timestamp,
    known: Known,
    /// What the transaction changed, to be told once it is committed.
    moved: Vec<Moved>,
    passed: Passed,
    /// Completions and the like; never behind deliveries.
    urgent: VecDeque<Job>,
    deliveries: VecDeque<Job>,
    /// The keeper's turns. Each comes last in a batch, one at a time: it has bounds of its own, and shares the fsync.
    chores: VecDeque<Job>,
    closing: Vec<oneshot::Sender<()>>,
    /// Nobody sends any more.
    orphaned: bool,
    /// Since when nothing could be written.
    trouble_since: Option<Duration>,
    seen_abroad: i64,
    looked_abroad: Instant,
    pub(super) wal: Wal,
}

impl Writer {
    pub(super) fn new(
        conn: Connection,
        jobs: mpsc::Receiver<Job>,
        shared: Arc<Shared>,
        space: Space,
        created_at: Timestamp,
        passed: Passed,
    ) -> Self {
        Self {
            passed,
            conn,
            jobs,
            shared,
            space,
            created_at,
            known: Known::default(),
            moved: Vec::new(),
            urgent: VecDeque::new(),
            deliveries: VecDeque::new(),
            chores: VecDeque::new(),
            closing: Vec::new(),
            orphaned: false,
            trouble_since: None,
            seen_abroad: 0,
            looked_abroad: Instant::now(),
            wal: Wal::new(None),
        }
    }

    pub(super) fn run(mut self) {
        self.seen_abroad = self.data_version();
        loop {
            self.receive();
            let batch = self.next_batch();
            if !batch.is_empty() {
                self.write(batch);
            } else if self.orphaned || !self.closing.is_empty() {
                break;
            }
            self.look_abroad();
            self.wal.tend(&self.conn);
        }
        self.passed.keep_at_end(&self.conn, self.created_at, &self.shared);
        self.wal.end(&self.conn);
        let closing = std::mem::take(&mut self.closing);
        // The connection closes before anybody hears that the store is closed.
        drop(self);
        for reply in closing {
            let _ = reply.send(());
        }
    }

    /// Takes everything that is queued; waits for something if there is nothing.
    fn receive(&mut self) {
        let waiting = [&self.urgent, &self.deliveries, &self.chores].iter().any(|queue| !queue.is_empty());
        if !waiting && self.closing.is_empty() && !self.orphaned {
            let received = match self.nap() {
                None => self.jobs.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(nap) => self.jobs.recv_timeout(nap),
            };
            match received {
                Ok(job) => self.sort(job),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => self.orphaned = true,
            }
        }
        while let Ok(job) = self.jobs.try_recv() {
            self.sort(job);
        }
    }

    fn sort(&mut self, job: Job) {
        match job {
            Job::Deliver { .. } => self.deliveries.push_back(job),
            Job::Apply { .. }
            | Job::StartEffect { .. }
            | Job::EndEffect { .. }
            | Job::Look { .. }
            | Job::Ready { .. }
            | Job::Renew(..) => self.urgent.push_back(job),
            Job::Sweep { .. } | Job::Vacuum { .. } => self.chores.push_back(job),
            Job::Nudge => {}
            Job::Close { reply } => self.closing.push(reply),
            #[cfg(test)]
            Job::Hook(hook) => hook(&self.conn),
        }
    }

    /// Until when there is nothing to do, if nobody asks.
    fn nap(&self) -> Option<Duration> {
        let now = self.shared.clock.monotonic();
        let renewal = self.shared.holds.next_due().map(|due| self.shared.clock.nap(due.saturating_sub(now)));
        let abroad =
            self.shared.hub.is_watched().then(|| LOOK_ABROAD_EVERY.saturating_sub(self.looked_abroad.elapsed()));
        [renewal, abroad, self.wal.nap()].into_iter().flatten().min()
    }

    fn next_batch(&mut self) -> Vec<Job> {
        let asked = self.shared.clock.monotonic();
        let due = self.shared.holds.take_due(asked);
        if !due.is_empty() {
            self.urgent.push_front(Job::Renew(due, asked));
        }
        let urgent = self.urgent.len().min(MAX_BATCH);
        let deliveries = self.deliveries.len().min(MAX_BATCH - urgent);
        let chore = self.chores.pop_front();
        self.urgent.drain(..urgent).chain(self.deliveries.drain(..deliveries)).chain(chore).collect()
    }

    /// The batch in one transaction, or each item in its own.
    fn write(&mut self, batch: Vec<Job>) {
        match self.transact(&batch) {
            Ok(outcomes) => self.answer(batch, outcomes),
            Err(Failed::ToBegin(error)) => {
                let outcomes = batch.iter().map(|_| Outcome::Failed(error.clone())).collect();
                self.answer(batch, outcomes);
            }
            Err(Failed::Inside(error)) if batch.len() == 1 => self.answer(batch, vec![Outcome::Failed(error)]),
            // Also a single item after COMMIT failed: a claim that stands is then read back by its holder (D7).
            Err(Failed::Inside(error) | Failed::ToCommit(error)) => {
                tracing::warn!(store = %self.shared.place, %error, items = batch.len(), "a batch was rolled back; its items are tried one by one");
                for job in batch {
                    let one = vec![job];
                    let outcomes = self.transact(&one).unwrap_or_else(|failed| vec![Outcome::Failed(failed.into())]);
                    self.answer(one, outcomes);
                }
            }
        }
    }

    fn transact(&mut self, batch: &[Job]) -> Result<Vec<Outcome>, Failed> {
        let began = Instant::now();
        let outcomes = self.commit(batch);
        match &outcomes {
            Ok(_) => {
                observe::committed(began.elapsed(), batch.len());
                moved::tell(&self.moved, |key| self.shared.secret.log_hash("key", key));
            }
            Err(Failed::ToBegin(error) | Failed::Inside(error) | Failed::ToCommit(error)) => {
                observe::store_failed(error);
            }
        }
        self.moved.clear();
        outcomes
    }

    fn commit(&mut self, batch: &[Job]) -> Result<Vec<Outcome>, Failed> {
        let begun = *self.trouble_since.get_or_insert_with(|| self.shared.clock.monotonic());
        let begun_anew = if self.conn.is_autocommit() { Ok(()) } else { self.conn.execute_batch("ROLLBACK") };
        begun_anew
            .and_then(|()| self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([]))
            .map_err(|error| Failed::ToBegin(StoreError::sqlite(&self.shared.place, error)))?;
        // The lock was waited for: other holders may have waited as long, so this is told before anything is judged.
        self.tell_judge(begun);
        let failed = match self.each(batch) {
            Ok(outcomes) => match self.conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([])) {
                Ok(_) => {
                    self.trouble_since = None;
                    self.tell_judge(begun);
                    return Ok(outcomes);
                }
                Err(error) => Failed::ToCommit(StoreError::sqlite(&self.shared.place, error)),
            },
            Err(error) => Failed::Inside(StoreError::sqlite(&self.shared.place, error)),
        };
        self.known.forget();
        // After some errors SQLite has rolled back already, after others it has not.
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(store = %self.shared.place, %error, "a transaction could not be rolled back; tried again before the next one");
        }
        Err(failed)
    }

    fn tell_judge(&self, begun: Duration) {
        let moment = self.shared.clock.moment();
        let mut judge = self.shared.judge();
        judge.look(moment.monotonic, moment.wall.as_millis());
        judge.stalled(moment.monotonic, moment.monotonic.saturating_sub(begun));
    }

    fn each(&mut self, batch: &[Job]) -> rusqlite::Result<Vec<Outcome>> {
        // Read after the lock was granted: a claim's lease begins now, not when it queued.
        let moment = self.shared.clock.moment();
        let now = moment.wall;
        let short = self.space.is_short();
        let shared = Arc::clone(&self.shared);
        let may_judge = move |policy: &Policy| shared.may_judge(policy.lease);
        let mut setting = Setting {
            place: &self.shared.place,
            now,
            latest: now.max(self.passed.measured(moment)),
            may_judge: &may_judge,
            created_at: self.created_at,
            known: &mut self.known,
            moved: std::mem::take(&mut self.moved),
        };
        let conn = &self.conn;
        setting.known.begin(conn)?;
        let mut outcomes = Vec::with_capacity(batch.len());
        for job in batch {
            let (outcome, pages) = match job {
                Job::Deliver { ask, purpose, crowded, .. } => (
                    claims::deliver(conn, ask, *purpose, *crowded || short, &mut setting)
                        .map(|(told, wrote)| Outcome::Told(told, wrote)),
                    4,
                ),
                Job::Apply { change, .. } => (
                    claims::apply(conn, change, &mut setting).map(|(applied, whose)| Outcome::Applied(applied, whose)),
                    4 + change.response.as_ref().map_or(0, |response| response.body.len() / 4096),
                ),
                Job::Renew(leases, _) => {
                    (leases::renew(conn, leases, now).map(Outcome::Renewed).map_err(Trouble::from), 2 * leases.len())
                }
                Job::StartEffect { start, policy, .. } => {
                    (effects::start(conn, start, policy, &setting).map(Outcome::EffectTold), 4)
                }
                Job::EndEffect { end, .. } => {
                    (effects::end(conn, end, &setting).map(Outcome::EffectNoted), 4 + end.result.len() / 4096)
                }
                Job::Look { look, .. } => (cases::take(conn, look).map(Outcome::Looked).map_err(Trouble::from), 2),
                Job::Ready { .. } => (touch(conn, now).map(|()| Outcome::Ready).map_err(Trouble::from), 1),
                Job::Sweep { policies, .. } => {
                    match sweep::turn(conn, policies, &mut self.passed, moment, &mut setting) {
                        Ok((swept, pages)) => (Ok(Outcome::Swept(swept)), pages),
                        Err(trouble) => (Err(trouble), 0),
                    }
                }
                Job::Vacuum { .. } => match vacuum::turn(conn) {
                    Ok((more, pages)) => (Ok(Outcome::Vacuumed(more)), pages),
                    Err(error) => (Err(error.into()), 0),
                },
                _ => continue,
            };
            self.wal.grew(pages);
            outcomes.push(match outcome {
                Ok(outcome) => outcome,
                Err(Trouble::Item(error)) => Outcome::Failed(error),
                Err(Trouble::Sqlite(error)) => return Err(error),
            });
        }
        self.moved = setting.moved;
        moved::count(conn, &self.moved)?;
        Ok(outcomes)
    }

    /// After COMMIT: wakes and answers. Whoever does not listen any more does not matter.
    fn answer(&self, batch: Vec<Job>, outcomes: Vec<Outcome>) {
        let changed = batch.iter().zip(&outcomes).filter_map(|(job, outcome)| match (job, outcome) {
            (Job::Deliver { ask, .. }, Outcome::Told(_, true)) => Some((ask.actor.stored(), ask.key.expose())),
            (_, Outcome::Applied(_, Some((actor, key)))) => Some((actor.as_str(), key.as_str())),
            _ => None,
        });
        self.shared.hub.wake(changed);
        for (job, outcome) in batch.into_iter().zip(outcomes) {
            if job.is_asked_for() {
                self.shared.queued.fetch_sub(1, Ordering::Relaxed);
            }
            match (job, outcome) {
                (Job::Deliver { reply, .. }, Outcome::Told(told, _)) => drop(reply.send(Ok(told))),
                (Job::Deliver { reply, .. }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::Apply { reply, .. }, Outcome::Applied(applied, _)) => drop(reply.send(Ok(applied))),
                (Job::Apply { reply, .. }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::StartEffect { reply, .. }, Outcome::EffectTold(told)) => drop(reply.send(Ok(told))),
                (Job::StartEffect { reply, .. }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::EndEffect { reply, .. }, Outcome::EffectNoted(noted)) => drop(reply.send(Ok(noted))),
                (Job::EndEffect { reply, .. }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::Look { reply, .. }, Outcome::Looked(taken)) => drop(reply.send(Ok(taken))),
                (Job::Look { reply, .. }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::Ready { reply }, Outcome::Ready) => drop(reply.send(Ok(()))),
                (Job::Ready { reply }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::Sweep { reply, .. }, Outcome::Swept(swept)) => drop(reply.send(Ok(swept))),
                (Job::Sweep { reply, .. }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::Vacuum { reply }, Outcome::Vacuumed(more)) => drop(reply.send(Ok(more))),
                (Job::Vacuum { reply }, Outcome::Failed(error)) => drop(reply.send(Err(error))),
                (Job::Renew(leases, asked), Outcome::Renewed(lost)) => {
                    self.log_lost(&lost);
                    self.shared.holds.prove(&leases, asked);
                }
                (Job::Renew(leases, _), Outcome::Failed(error)) => {
                    tracing::warn!(store = %self.shared.place, %error, claims = leases.len(), "claims could not be renewed; tried again");
                    self.shared.holds.retry(&leases, self.shared.clock.monotonic());
                }
                // Outcomes are made job by job, so they fit; one that did not would leave its asker with `Closed`.
                _ => {}
            }
        }
    }

    fn log_lost(&self, lost: &[Lost]) {
        for Lost { lease, why } in lost {
            self.shared.holds.lose(lease.id, lease.fence);
            match why {
                Why::Over => tracing::debug!(record = lease.id.0, attempt = lease.fence.attempt, "a claim is over"),
                Why::Taken(state) => tracing::warn!(
                    record = lease.id.0,
                    attempt = lease.fence.attempt,
                    state = state.map_or("forgotten", |state| state.as_str()),
                    "a claim was lost while its holder worked"
                ),
            }
        }
    }

    /// Wakes all waiters if another process wrote. Nobody waits: nobody looks.
    fn look_abroad(&mut self) {
        if !self.shared.hub.is_watched() || self.looked_abroad.elapsed() < LOOK_ABROAD_EVERY {
            return;
        }
        self.looked_abroad = Instant::now();
        let version = self.data_version();
        if version != self.seen_abroad {
            self.seen_abroad = version;
            self.shared.hub.wake_all();
        }
    }

    /// Changes when another connection committed. An unreadable one counts as a change.
    fn data_version(&self) -> i64 {
        self.conn.pragma_query_value(None, "data_version", |row| row.get(0)).unwrap_or(-1)
    }
}

/// The smallest write there is.
fn touch(conn: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO samekey_meta VALUES ('ready', ?1) ON CONFLICT DO UPDATE SET value = excluded.value",
    )?
    .execute([now.as_millis()])
    .map(drop)
}
