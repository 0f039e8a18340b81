//! The writers: each takes what is queued into one transaction. Nobody is answered, and nobody is woken, before
//! COMMIT returned.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::claims::{self, Meeting, Met};
use super::database::Database;
use super::error::{self, Trouble};
use super::events::{self, Outcome};
use super::pool::{Link, Speak};
use super::queue::{Applying, Batch, Delivery, Job, Reply};
use super::{cases, effects, passed, pool, sweep};
use crate::observe;
use crate::store::StoreError;
use crate::store::hub::Name;

/// Before what another transaction is about is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a transaction came to nothing.
enum Failed {
    /// It did not begin.
    ToConnect(StoreError),
    /// The connection was lost: it may have been committed all the same.
    Lost(StoreError),
    /// It was rolled back.
    Inside(StoreError),
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::ToConnect(error) | Failed::Lost(error) | Failed::Inside(error) => error,
        }
    }
}

/// Writes until the queue is closed and empty.
pub(super) async fn run(db: Arc<Database>) {
    while let Some(batch) = db.queue.next().await {
        match batch {
            Batch::Deliveries(deliveries) => deliver(&db, deliveries).await,
            Batch::Events(events) => apply(&db, events).await,
            Batch::Alone(job) => alone(&db, job).await,
        }
    }
}

/// `work` begins a transaction and commits it.
async fn transact<T, F>(db: &Database, writes: usize, work: impl FnOnce(Arc<Link>) -> F) -> Result<T, Failed>
where
    F: Future<Output = Result<T, Trouble>>,
{
    let begun = db.clock.monotonic();
    let link = db.link().await.map(Arc::new).map_err(|error| {
        observe::store_failed(&error);
        db.wrote(begun, false);
        Failed::ToConnect(error)
    })?;
    // Several statements, each under the server's own limit: this is for a server that says nothing.
    let limit = db.statement_timeout * 2;
    let began = Instant::now();
    match tokio::time::timeout(limit, work(Arc::clone(&link))).await {
        Ok(Ok(value)) => {
            observe::committed(began.elapsed(), writes);
            pool::give_back(link);
            db.wrote(begun, true);
            Ok(value)
        }
        Ok(Err(Trouble::Item(error))) => {
            pool::roll_back(link).await;
            Err(Failed::Inside(error))
        }
        Ok(Err(Trouble::Postgres(error))) => {
            db.wrote(begun, false);
            let said = error::of(&db.place, &error);
            observe::store_failed(&said);
            if error::is_connection(&error) {
                db.silent();
                return Err(Failed::Lost(said));
            }
            pool::roll_back(link).await;
            Err(Failed::Inside(said))
        }
        Err(_) => {
            db.wrote(begun, false);
            db.silent();
            Err(Failed::Lost(StoreError::Unreachable { place: Arc::clone(&db.place), why: "no answer in time".into() }))
        }
    }
}

/// Once more if the connection was lost: a claim that stands is then read back by its holder, an end by what it wrote.
async fn twice<T, F>(db: &Database, writes: usize, work: impl Fn(Arc<Link>) -> F) -> Result<T, Failed>
where
    F: Future<Output = Result<T, Trouble>>,
{
    match transact(db, writes, &work).await {
        Err(Failed::Lost(error)) => {
            tracing::warn!(store = %db.place, %error, "the connection was lost in a transaction; tried on another one");
            transact(db, writes, work).await
        }
        ended => ended,
    }
}

fn log_apart(db: &Database, error: &StoreError, items: usize) {
    tracing::warn!(store = %db.place, %error, items, "a batch was rolled back; its items are tried one by one");
}

async fn deliver(db: &Arc<Database>, batch: Vec<Box<Delivery>>) {
    let meetings: Vec<&Meeting> = batch.iter().map(|delivery| &delivery.meeting).collect();
    let items = &meetings[..];
    let met = match twice(db, items.len(), |link| async move { claims::meet(&link, items, db).await }).await {
        Ok(met) => met,
        Err(Failed::Inside(error)) if batch.len() > 1 => {
            log_apart(db, &error, batch.len());
            let mut met = Vec::with_capacity(batch.len());
            for item in items.chunks(1) {
                let one = twice(db, 1, |link| async move { claims::meet(&link, item, db).await }).await;
                met.push(
                    one.map_or_else(|failed| Met::Failed(failed.into()), |mut one| one.pop().unwrap_or(Met::Later)),
                );
            }
            met
        }
        Err(failed) => {
            let error = StoreError::from(failed);
            items.iter().map(|_| Met::Failed(error.clone())).collect()
        }
    };
    drop(meetings);
    let mut changed: Vec<Name> = Vec::new();
    let mut later = Vec::new();
    let mut moved = Vec::new();
    let mut answered = 0;
    let mut answers = Vec::with_capacity(batch.len());
    for (delivery, met) in batch.into_iter().zip(met) {
        match met {
            Met::Later if delivery.asked.elapsed() < db.lock_timeout => {
                later.push(delivery);
                continue;
            }
            Met::Told(told, wrote, one) => {
                moved.extend(one);
                if wrote {
                    let ask = &delivery.meeting.ask;
                    changed.push(db.hub.name(ask.actor.stored(), ask.key.expose()));
                }
                answers.push((delivery.reply, Ok(*told)));
            }
            Met::Later => answers.push((delivery.reply, Err(StoreError::Busy { place: Arc::clone(&db.place) }))),
            Met::Failed(error) => answers.push((delivery.reply, Err(error))),
        }
        answered += 1;
    }
    db.changed(changed);
    db.tell(&moved);
    answer(answers);
    db.queue.answered(answered, answered);
    again(db, later, Vec::new());
}

async fn apply(db: &Arc<Database>, batch: Vec<Box<Applying>>) {
    let items = &batch[..];
    let applied = match twice(db, items.len(), |link| async move { events::apply_queued(&link, items, db).await }).await
    {
        Ok(outcomes) => outcomes,
        Err(Failed::Inside(error)) if items.len() > 1 => {
            log_apart(db, &error, items.len());
            let mut outcomes = Vec::with_capacity(items.len());
            for item in items.chunks(1) {
                let one = twice(db, 1, |link| async move { events::apply_queued(&link, item, db).await }).await;
                outcomes.push(one.map_or_else(
                    |failed| Outcome::Failed(failed.into()),
                    |mut one| one.pop().unwrap_or(Outcome::Later),
                ));
            }
            outcomes
        }
        Err(failed) => {
            let error = StoreError::from(failed);
            items.iter().map(|_| Outcome::Failed(error.clone())).collect()
        }
    };
    let mut changed: Vec<Name> = Vec::new();
    let (mut later, mut moved, mut own) = (Vec::new(), Vec::new(), 0);
    let mut answers = Vec::with_capacity(batch.len());
    for (event, outcome) in batch.into_iter().zip(applied) {
        let is_later = matches!(outcome, Outcome::Later) && event.asked.elapsed() < db.lock_timeout;
        own += usize::from(event.own && !is_later);
        match outcome {
            Outcome::Later if is_later => later.push(event),
            Outcome::Later => answers.push((event.reply, Err(StoreError::Busy { place: Arc::clone(&db.place) }))),
            Outcome::Failed(error) => answers.push((event.reply, Err(error))),
            Outcome::Applied(applied, whose, one) => {
                moved.extend(one);
                changed.extend(whose.map(|(actor, key)| db.hub.name(&actor, &key)));
                answers.push((event.reply, Ok(*applied)));
            }
        }
    }
    let answered = answers.len();
    db.changed(changed);
    db.tell(&moved);
    answer(answers);
    db.queue.answered(answered, answered - own);
    again(db, Vec::new(), later);
}

/// Whoever does not listen any more does not matter.
fn answer<T>(answers: Vec<(Reply<T>, Result<T, StoreError>)>) {
    for (reply, answer) in answers {
        drop(reply.send(answer));
    }
}

/// Gives back what another transaction is about, in a moment.
fn again(db: &Arc<Database>, deliveries: Vec<Box<Delivery>>, events: Vec<Box<Applying>>) {
    if deliveries.is_empty() && events.is_empty() {
        return;
    }
    let db = Arc::clone(db);
    tokio::spawn(async move {
        tokio::time::sleep(PAUSE).await;
        db.queue.give_back(deliveries, events);
    });
}

async fn alone(db: &Database, job: Job) {
    match job {
        Job::StartEffect { start, policy, reply } => {
            let (start, policy) = (&*start, &*policy);
            let told = twice(db, 1, |link| async move { effects::start(&link, start, policy, db).await }).await;
            drop(reply.send(told.map_err(StoreError::from)));
        }
        Job::EndEffect { end, reply } => {
            let end = &*end;
            let noted = twice(db, 1, |link| async move { effects::end(&link, end, db).await }).await;
            drop(reply.send(noted.map_err(StoreError::from)));
        }
        Job::Look { look, reply } => {
            let look = &look;
            let taken = twice(db, 1, |link| async move { cases::take(&link, look).await }).await;
            drop(reply.send(taken.map_err(StoreError::from)));
            return db.queue.answered(1, 0);
        }
        Job::Sweep { policies, reply } => {
            let policies = &*policies;
            let swept = twice(db, 1, |link| async move {
                let swept = sweep::turn(&link, policies, db).await?;
                passed::keep(&link, db, false).await?;
                Ok(swept)
            });
            drop(reply.send(swept.await.map_err(StoreError::from)));
            return db.queue.answered(1, 0);
        }
        Job::Ready { reply } => {
            let touched = twice(db, 1, |link| async move { touch(&link, db).await }).await;
            drop(reply.send(touched.map_err(StoreError::from)));
        }
        // The queue makes batches of these.
        Job::Deliver(_) | Job::Apply(_) => return,
    }
    db.queue.answered(1, 1);
}

/// The smallest write there is.
async fn touch(link: &Link, db: &Database) -> Result<(), Trouble> {
    link.execute(
        "INSERT INTO samekey_meta VALUES ('ready', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        &[&db.now().as_millis().to_string()],
    )
    .await?;
    Ok(())
}
