//! Heartbeats, and who may call a claim lapsed.

use rusqlite::Connection;
use samekey_core::claim::{Context, State, Write, transition};

use super::super::{leases, row};
use super::*;
use crate::store::hold::Lease;

fn load(conn: &Connection, id: RecordId) -> samekey_core::claim::Record {
    let sql = format!("SELECT {} FROM idempotency_keys WHERE id = ?1", row::COLUMNS);
    let mut statement = conn.prepare(&sql).unwrap();
    let mut rows = statement.query([id.0]).unwrap();
    row::read(rows.next().unwrap().unwrap()).unwrap().record
}

/// Every state, with the lease and deadline before, at and after now, and each part of the fence wrong.
#[tokio::test]
async fn the_statement_that_renews_equals_cores_rule() {
    let bench = Bench::new().await;
    let mut claims = Vec::new();
    let conn = beside(&bench.path());
    for state in State::ALL {
        for deadline in [-1, 0, 1, 10_000, 100_000] {
            for lease_until in [-5_000, 0, 5_000] {
                for (attempt, by) in [(1, 1), (2, 1), (1, 2)] {
                    let key = format!("{}-{deadline}-{lease_until}-{attempt}-{by}", state.as_str());
                    let under = ask_under(&key, Policy::new("orders.create").quota(u32::MAX));
                    let (id, _) = run(&bench.store, &under).await;
                    conn.execute(
                        "UPDATE idempotency_keys SET state = ?2, deadline = ?3, lease_until = ?4 WHERE id = ?1",
                        (id.0, state.as_str(), START.as_millis() + deadline, START.as_millis() + lease_until),
                    )
                    .unwrap();
                    let fence = Fence { attempt, holder: holder(by) };
                    let length = s(30);
                    claims.push((Lease { id, fence, length }, load(&conn, id)));
                }
            }
        }
    }
    let own: Vec<Lease> = claims.iter().map(|(lease, _)| *lease).collect();
    let lost = leases::renew(&conn, &own, START).unwrap();
    let policy = Policy::new("orders.create");
    let mut renewed = 0;
    for (lease, before) in claims {
        let context = Context { now: START, policy: &policy, may_judge: true, new_holder: holder(9) };
        let is_lost = lost.iter().any(|lost| lost.lease == lease);
        match transition(&before, &Event::Renew(lease.fence), &context) {
            Ok(Write::Update(expected)) => {
                assert_eq!(load(&conn, lease.id), expected);
                assert!(!is_lost);
                renewed += 1;
            }
            refused => {
                assert!(refused.is_err(), "{refused:?}");
                assert_eq!(load(&conn, lease.id), before);
                assert!(is_lost);
            }
        }
    }
    assert_eq!(renewed, 9, "three deadlines, three leases");
}

#[tokio::test]
async fn whoever_could_not_write_for_long_does_not_judge() {
    let bench = Bench::with(|options| options.busy_timeout(Duration::from_millis(20))).await;
    bench.hands.advance(s(60));
    assert!(bench.store.may_judge(s(30)));
    let other = beside(&bench.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    bench.store.deliver(ask("k1")).await.unwrap_err();
    bench.hands.advance(s(11));
    other.execute_batch("COMMIT").unwrap();
    run(&bench.store, &ask("k1")).await;
    assert!(!bench.store.may_judge(s(30)), "11 s are more than a third");
    assert!(bench.store.may_judge(s(60)));
    bench.hands.advance(s(30));
    assert!(bench.store.may_judge(s(30)));
}

#[tokio::test]
async fn a_renewal_in_the_queue_goes_before_the_delivery_that_would_judge() {
    let bench = Bench::new().await;
    bench.hands.advance(s(60));
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let hold = bench.store.hold(id, fence, &ask("k1").policy, Duration::ZERO);
    let paused = bench.pause();
    bench.hands.advance(s(30));
    let store = bench.store.clone();
    let retry = tokio::spawn(async move { store.deliver(Ask { holder: holder(2), ..ask("k1") }).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(paused);
    assert_eq!(retry.await.unwrap().unwrap().say, Say::Wait, "lapsed by the clock, but its heartbeat was here");
    assert!(hold.stands());
}
