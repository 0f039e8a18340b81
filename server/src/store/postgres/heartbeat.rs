//! The heartbeat: own claims that are due are renewed through the queue, in one transaction each batch.

use std::sync::Arc;
use std::time::Duration;

use samekey_core::Policy;
use samekey_core::claim::{Event, Record, State};
use tokio::sync::oneshot;

use super::database::Database;
use super::queue::Job;
use crate::store::hold::Lease;
use crate::store::{Applied, Change, Note, StoreError};

/// How long to sleep where nothing is held.
const IDLE: Duration = Duration::from_secs(3600);

/// Renews as long as the store is open.
pub(super) async fn run(db: Arc<Database>) {
    loop {
        let asked = db.clock.monotonic();
        let due = db.holds.take_due(asked);
        if !due.is_empty() {
            // Beside the next round: renewals that hang must not keep others waiting.
            tokio::spawn(renew(Arc::clone(&db), due, asked));
        }
        let now = db.clock.monotonic();
        let nap = db.holds.next_due().map_or(IDLE, |due| db.clock.nap(due.saturating_sub(now)));
        // Over or nudged, it looks again either way.
        let _ = tokio::time::timeout(nap, db.nudged.notified()).await;
    }
}

async fn renew(db: Arc<Database>, leases: Vec<Lease>, asked: Duration) {
    let mut answers = Vec::with_capacity(leases.len());
    for lease in &leases {
        let (reply, answer) = oneshot::channel();
        let change = Change {
            id: lease.id,
            policy: Arc::new(Policy::new("").lease(lease.length)),
            event: Event::Renew(lease.fence),
            response: None,
            note: Note::default(),
        };
        if db.queue.push(Job::own(change, reply)).is_err() {
            return;
        }
        answers.push(answer);
    }
    let (mut proved, mut failed, mut why) = (Vec::new(), Vec::new(), None);
    for (lease, answer) in leases.into_iter().zip(answers) {
        match answer.await.unwrap_or(Err(StoreError::Closed)) {
            Ok(Applied { record: Some(_), refused: None }) => proved.push(lease),
            Ok(applied) => lose(&db, lease, applied.record.as_ref()),
            Err(error) => {
                failed.push(lease);
                why = Some(error);
            }
        }
    }
    db.holds.prove(&proved, asked);
    if let Some(error) = why.filter(|error| !error.is_closed()) {
        tracing::warn!(store = %db.place, %error, claims = failed.len(), "claims could not be renewed; tried again");
        db.holds.retry(&failed, db.clock.monotonic());
        db.nudged.notify_one();
    }
}

/// The claim is not ours any more: it ended in time or reached its deadline, or it was taken while its holder worked.
fn lose(db: &Database, lease: Lease, record: Option<&Record>) {
    db.holds.lose(lease.id, lease.fence);
    let over = record.is_some_and(|record| {
        record.fence == lease.fence && (record.state != State::Uncertain || db.now() >= record.deadline)
    });
    if over {
        tracing::debug!(record = lease.id.0, attempt = lease.fence.attempt, "a claim is over");
    } else {
        tracing::warn!(
            record = lease.id.0,
            attempt = lease.fence.attempt,
            state = record.map_or("forgotten", |record| record.state.as_str()),
            "a claim was lost while its holder worked"
        );
    }
}
