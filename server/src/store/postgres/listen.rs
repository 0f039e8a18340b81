//! Waiters on other hosts hear of a change by NOTIFY, and this host by LISTEN.
//!
//! The notice goes out after COMMIT, on a connection of its own: inside the transaction it would take a lock that all
//! commits of the database share. So one can be lost, with the process that was about to send it; whoever waits
//! therefore looks again by itself every few seconds. A notice names records by a hash under the store's secret.
//!
//! The same connection asks for the time each second. Where it gets no answer, claims were not renewed either, and
//! the judge hears of it even if nothing else asked.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_postgres::{AsyncMessage, Client, Notification};

use super::database::Database;
use super::{PostgresOptions, error};
use crate::store::StoreError;
use crate::store::hub::Name;

const CHANNEL: &str = "samekey";

/// A notice holds less than 8000 bytes; a name takes 16 of them.
const MOST_NAMES: usize = 400;

/// How often whoever waits looks without having heard anything.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long a store that closes waits for its last notice.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(250);

/// What is to be told.
#[derive(Debug)]
pub(super) enum Notice {
    /// These records changed.
    Changed(Vec<Name>),
    /// Whoever holds the other end wants to know that all before was told.
    Last(oneshot::Sender<()>),
}

/// Takes what is to be told.
#[derive(Clone, Debug)]
pub(super) struct Notices(UnboundedSender<Notice>);

impl Notices {
    pub(super) fn tell(&self, names: Vec<Name>) {
        // Nobody takes any more once the store is closed.
        let _ = self.0.send(Notice::Changed(names));
    }

    /// Waits until all was told, or could not be.
    pub(super) async fn told(&self) {
        let (all, told) = oneshot::channel();
        if self.0.send(Notice::Last(all)).is_ok() {
            let _ = timeout(LAST_WORDS, told).await;
        }
    }
}

pub(super) fn notices() -> (Notices, UnboundedReceiver<Notice>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Notices(sender), receiver)
}

/// Listens and tells as long as the store is open.
pub(super) async fn run(db: Arc<Database>, options: PostgresOptions, mut noticed: UnboundedReceiver<Notice>) {
    loop {
        if let Err(error) = once(&db, &options, &mut noticed).await {
            db.silent();
            tracing::warn!(store = %db.place, %error, "not listening for changes by other hosts; tried again");
        }
        tokio::time::sleep(PAUSE).await;
        // What could not be told, others find by looking.
        while noticed.try_recv().is_ok() {}
    }
}

/// One connection, from its beginning to its end.
async fn once(
    db: &Database,
    options: &PostgresOptions,
    noticed: &mut UnboundedReceiver<Notice>,
) -> Result<(), StoreError> {
    let of = |error| error::of(&db.place, &error);
    let late = || StoreError::Unreachable { place: Arc::clone(&db.place), why: "no answer in time".into() };
    let connecting = options.config.connect(options.tls.clone());
    let (client, mut connection) =
        timeout(options.connect_timeout, connecting).await.map_err(|_| late())?.map_err(of)?;
    let (heard, mut hearing) = mpsc::unbounded_channel();
    let driver = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message {
                // The other end goes with this one.
                let _ = heard.send(notification);
            }
        }
    });
    let served = serve(db, &client, options.pulse(), &mut hearing, noticed).await;
    driver.abort();
    served.map_err(|error| error.map_or_else(late, of))
}

/// Serves until the connection ends; no error: it gave no answer.
async fn serve(
    db: &Database,
    client: &Client,
    pulse: Duration,
    hearing: &mut UnboundedReceiver<Notification>,
    noticed: &mut UnboundedReceiver<Notice>,
) -> Result<(), Option<tokio_postgres::Error>> {
    let limit = db.statement_timeout;
    let answered = async |what: &str| timeout(limit, client.batch_execute(what)).await.map_err(|_| None)?.map_err(Some);
    answered(&format!("LISTEN {CHANNEL}")).await?;
    let own: i32 =
        timeout(limit, client.query_one("SELECT pg_backend_pid()", &[])).await.map_err(|_| None)?.map_err(Some)?.get(0);
    let now = client.prepare(&db.dated.now).await.map_err(Some)?;
    let notify = client.prepare("SELECT pg_notify($1, $2)").await.map_err(Some)?;
    // What changed while nobody listened.
    db.hub.wake_all();
    db.listening.notify_one();
    let mut pulse = interval(pulse);
    pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked = Instant::now();
    loop {
        tokio::select! {
            notification = hearing.recv() => match notification {
                Some(notification) if notification.process_id() == own => {}
                Some(notification) => db.hub.wake_named(names(notification.payload())),
                // The driver ended; the next statement says why.
                None => answered("").await?,
            },
            told = noticed.recv() => {
                let (mut told, mut next, mut last) = (Vec::new(), told, None);
                while let Some(notice) = next.take() {
                    match notice {
                        Notice::Changed(names) => told.extend(names),
                        Notice::Last(all) => last = Some(all),
                    }
                    next = if told.len() < MOST_NAMES { noticed.try_recv().ok() } else { None };
                }
                for some in told.chunks(MOST_NAMES) {
                    let payload: String = some.iter().map(|name| format!("{name:016x}")).collect();
                    timeout(limit, client.execute(&notify, &[&CHANNEL, &payload])).await.map_err(|_| None)?.map_err(Some)?;
                }
                // Dropping it says the same.
                drop(last);
            }
            _ = pulse.tick() => {
                let row = timeout(limit, client.query_one(&now, &[])).await.map_err(|_| None)?.map_err(Some)?;
                db.clock_shows(samekey_core::Timestamp::from_millis(row.get(0)));
                if looked.elapsed() >= LOOK_EVERY {
                    looked = Instant::now();
                    db.hub.wake_all();
                }
            }
        }
    }
}

/// Anything else on the channel is not ours and says nothing.
fn names(payload: &str) -> impl Iterator<Item = Name> {
    payload.as_bytes().chunks(16).filter_map(|name| Name::from_str_radix(std::str::from_utf8(name).ok()?, 16).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_names_many_and_foreign_ones_none() {
        let told: Vec<Name> = vec![0, 7, Name::MAX];
        let payload: String = told.iter().map(|name| format!("{name:016x}")).collect();
        assert_eq!(names(&payload).collect::<Vec<_>>(), told);
        assert_eq!(names("hello, this is none of it").count(), 0);
        const { assert!(MOST_NAMES * 16 < 8000) };
    }
}
