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

async fn lease_until(bench: &Bench, id: RecordId) -> Timestamp {
    bench.on_writer(move |conn| load(conn, id).lease_until).await
}

#[tokio::test]
async fn a_held_claim_is_renewed_up_to_its_deadline_and_others_are_not() {
    let bench = Bench::new().await;
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let (alone, _) = run(&bench.store, &ask("k2")).await;
    let hold = bench.store.hold(id, fence, &ask("k1").policy, Duration::ZERO);
    bench.hands.advance(s(10));
    until(async || lease_until(&bench, id).await == START + s(40)).await;
    bench.hands.advance(s(25));
    until(async || lease_until(&bench, id).await == START + s(60)).await;
    assert_eq!(lease_until(&bench, alone).await, START + s(30));
    assert!(hold.stands());
    bench.hands.advance(s(25));
    until(async || !hold.stands()).await;
    assert_eq!(load(&beside(&bench.path()), id).state, State::InProgress, "its end is not the heartbeat's");
}

#[tokio::test]
async fn a_claim_that_was_taken_is_not_renewed() {
    let bench = Bench::new().await;
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let hold = bench.store.hold(id, fence, &ask("k1").policy, Duration::ZERO);
    beside(&bench.path()).execute("UPDATE idempotency_keys SET attempt = 2", []).unwrap();
    bench.hands.advance(s(10));
    until(async || !hold.stands()).await;
    assert_eq!(hold.proved_at(), Duration::ZERO, "or its holder would start a handler on it");
    assert_eq!(lease_until(&bench, id).await, START + s(30));
}

#[tokio::test]
async fn a_claim_lapses_only_before_a_process_that_may_judge() {
    let bench = Bench::new().await;
    let lease = ask("k1").policy.lease;
    assert!(!bench.store.may_judge(lease), "it has just started");
    bench.hands.advance(lease);
    assert!(bench.store.may_judge(lease));
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let retry = Ask { holder: holder(2), ..ask("k1") };

    // The wall clock alone jumps past the lease.
    bench.hands.set_wall(bench.clock.now() + s(3600));
    assert_eq!(bench.store.peek(&retry).await.unwrap().unwrap().say, Say::Wait);
    assert_eq!(bench.store.deliver(retry.clone()).await.unwrap().say, Say::Wait);
    assert!(!bench.store.may_judge(lease));

    bench.hands.advance(lease);
    assert!(bench.store.peek(&retry).await.unwrap().is_none(), "the writer has to judge");
    let told = bench.store.deliver(retry).await.unwrap();
    assert_eq!(told.say, Say::Refuse(samekey_core::problem::Code::OutcomeUncertain));
    assert_eq!(told.found.unwrap().record.state, State::Uncertain);
    let late = finish(&bench.store, &ask("k1"), id, fence).await;
    assert_eq!(late.record.unwrap().state, State::Completed, "the late answer settles it");
}

#[tokio::test]
async fn a_store_that_opened_late_does_not_judge_either() {
    let bench = Bench::new().await;
    bench.hands.advance(s(3600));
    let second = bench.second().await;
    assert!(bench.store.may_judge(s(30)));
    assert!(!second.may_judge(s(30)));
    bench.hands.advance(s(30));
    assert!(second.may_judge(s(30)));
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
