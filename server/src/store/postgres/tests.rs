//! Races between hosts, servers that are killed, and databases that are not what they were.

use std::sync::Arc;
use std::time::Duration;

use samekey_core::claim::transition::Finish;
use samekey_core::claim::{Event, Reason, Say, State};
use samekey_core::problem::Code;
use samekey_core::{Actor, Policy};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::*;
use crate::store::Store;
use crate::store::conformance::Bench;
use crate::store::conformance::server;
use crate::store::sqlite::tests::{START, answer, ask, ask_under, finish, holder, minted, run, s, terminal, until};

/// A store on a server of its own, by the real clock.
async fn alone(server: &server::Postgres) -> Store {
    Store::open(options(server)).await.unwrap()
}

fn options(server: &server::Postgres) -> PostgresOptions {
    PostgresOptions::new(&format!("{}?sslmode=disable", server.url("postgres"))).unwrap().unattended()
}

async fn client(server: &server::Postgres, database: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&server.url(database), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn server_of_its_own(settings: &[&str]) -> Option<server::Postgres> {
    tokio::task::block_in_place(|| server::Postgres::start(settings))
}

/// Ends all connections of the store, as a failing network would.
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'samekey'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_one_hosts_clock_steals_no_lease() {
    let Some(bench) = Bench::postgres().await else { return };
    let lease = ask("k1").policy.lease;
    bench.advance(lease).await;
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    for hours in [1_i64, -1] {
        bench.step_host(hours * 3_600_000);
        let retry = Ask { holder: holder(2), ..ask("k1") };
        assert_eq!(bench.store.peek(&retry).await.unwrap().unwrap().say, Say::Wait);
        assert_eq!(bench.store.deliver(retry).await.unwrap().say, Say::Wait);
        assert_eq!(bench.store.now(), START + lease);
        assert!(bench.store.may_judge(lease), "nobody looks at it");
    }
    let ended = finish(&bench.store, &ask("k1"), id, fence).await.record.unwrap();
    assert_eq!(ended.finished_at, Some(START + lease));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_claims_on_two_hosts_the_quota_lets_through_as_many_as_it_says() {
    let Some(bench) = Bench::postgres().await else { return };
    let second = bench.second().await;
    let mut deliveries = JoinSet::new();
    for number in 0..60_u8 {
        let store = if number % 2 == 0 { bench.store.clone() } else { second.clone() };
        let ask = ask_under(&format!("k{number}"), Policy::new("orders.create").quota(7));
        deliveries.spawn(async move { store.deliver(ask).await.unwrap().say });
    }
    let said = deliveries.join_all().await;
    assert_eq!(said.iter().filter(|say| matches!(say, Say::Run(_))).count(), 7);
    assert_eq!(said.iter().filter(|say| **say == Say::Refuse(Code::QuotaExceeded)).count(), 53);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_under_two_names_of_one_operation_runs_once_on_two_hosts() {
    let Some(bench) = Bench::postgres().await else { return };
    let second = bench.second().await;
    for round in 0..60 {
        let key = format!("k{round}");
        // A deploy under way: each host has the other's name as an alias.
        let old = Ask { operation: "orders.place".into(), also: vec!["orders.create".into()], ..ask(&key) };
        let new = Ask { also: vec!["orders.place".into()], holder: holder(2), ..ask(&key) };
        let (one, other) = (bench.store.clone(), second.clone());
        let (one, other) = tokio::join!(
            tokio::spawn(async move { one.deliver(old).await }),
            tokio::spawn(async move { other.deliver(new).await })
        );
        let said = [one.unwrap().unwrap().say, other.unwrap().unwrap().say];
        assert_eq!(said.iter().filter(|say| matches!(say, Say::Run(_))).count(), 1, "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_random_key_of_two_actors_runs_for_one_of_them() {
    let Some(bench) = Bench::postgres().await else { return };
    let second = bench.second().await;
    for round in 0..60 {
        let key = format!("f81d4fae-7dec-41d0-a765-00a0c91e{round:04x}");
        let fenced = |actor: &str| Ask { actor: Actor::new(actor), fence_credentials: true, ..ask(&key) };
        let (one, other, first, again) = (bench.store.clone(), second.clone(), fenced("token-1"), fenced("token-2"));
        let (one, other) = tokio::join!(
            tokio::spawn(async move { one.deliver(first).await }),
            tokio::spawn(async move { other.deliver(again).await })
        );
        let said = [one.unwrap().unwrap().say, other.unwrap().unwrap().say];
        assert_eq!(said.iter().filter(|say| matches!(say, Say::Run(_))).count(), 1, "{said:?}");
        assert!(said.contains(&Say::Refuse(Code::ActorChanged)), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_not_forgotten_under_a_delivery() {
    let Some(bench) = Bench::postgres().await else { return };
    let policy = Policy::new("orders.create");
    bench.store.policies().add(policy.clone());
    let key = minted(START);
    let (id, fence) = run(&bench.store, &ask(&key)).await;
    finish(&bench.store, &ask(&key), id, fence).await;
    bench.advance(policy.retention).await;
    bench.store.sweep().await.unwrap();
    bench.advance(policy.remember).await;
    // A delivery on another host holds the key's lock between its look and its commit.
    let lock = sql::key_lock("ann", &key);
    bench.number(&format!("SELECT 1::bigint FROM pg_advisory_lock({lock})")).await;
    assert_eq!(bench.store.sweep().await.unwrap().forgotten, 0);
    assert_eq!(bench.count("idempotency_keys").await, 1);
    bench.number(&format!("SELECT pg_advisory_unlock({lock})::int::bigint")).await;
    bench.advance(s(86_400)).await;
    assert_eq!(bench.store.sweep().await.unwrap().forgotten, 1);
    assert_eq!(bench.store.deliver(ask(&key)).await.unwrap().say, Say::Refuse(Code::KeyExpired));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_about_a_key_holds_up_no_other_and_not_for_ever() {
    let Some(bench) = Bench::postgres().await else { return };
    let hasty = Store::open(bench.postgres_options().lock_timeout(Duration::from_millis(100))).await.unwrap();
    let lock = sql::key_lock("ann", "k1");
    bench.number(&format!("SELECT 1::bigint FROM pg_advisory_lock({lock})")).await;
    let error = hasty.deliver(ask("k1")).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }) && error.is_transient(), "{error}");
    run(&hasty, &ask("k2")).await;
    let waiting = tokio::spawn({
        let store = bench.store.clone();
        async move { store.deliver(ask("k1")).await }
    });
    run(&bench.store, &ask("k3")).await;
    bench.number(&format!("SELECT pg_advisory_unlock({lock})::int::bigint")).await;
    assert!(matches!(waiting.await.unwrap().unwrap().say, Say::Run(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_a_free_connection_refuses_and_runs_nothing() {
    let Some(bench) = Bench::postgres().await else { return };
    let small = bench.postgres_options().connections(2).connect_timeout(Duration::from_millis(300));
    let small = Store::open(small.lock_timeout(Duration::from_millis(900))).await.unwrap();
    bench.sql("BEGIN; LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE").await;
    let asks = [ask("k1"), ask("k2"), ask("k3")];
    let (one, two, three) = tokio::join!(small.peek(&asks[0]), small.peek(&asks[1]), small.peek(&asks[2]));
    let errors = [one, two, three].map(|peeked| peeked.unwrap_err());
    assert!(errors.iter().all(StoreError::is_transient), "{errors:?}");
    assert!(errors.iter().any(|error| error.to_string().contains("all 2 connections")), "{errors:?}");
    assert!(errors.iter().any(|error| matches!(error, StoreError::Busy { .. })), "{errors:?}");
    bench.sql("COMMIT").await;
    assert_eq!(bench.count("idempotency_keys").await, 0);
    run(&small, &ask("k1")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_under_load_lose_and_double_nothing() {
    let Some(server) = server_of_its_own(&["fsync=off"]) else { return };
    let store = alone(&server).await;
    let cutter = client(&server, "postgres").await;
    let mut commands = JoinSet::new();
    for number in 0..400 {
        let store = store.clone();
        commands.spawn(async move {
            let ask = ask_under(&format!("k{number}"), Policy::new("orders.create").quota(10_000));
            // As whoever claims does after an error: the same holder again.
            let told = loop {
                match store.deliver(ask.clone()).await {
                    Ok(told) => break told,
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
            };
            let Say::Run(fence) = told.say else { panic!("{told:?}") };
            let id = told.found.unwrap().id;
            loop {
                let event = Event::Finish(fence, Finish::Terminal(terminal(201)));
                match store.apply(id, Arc::clone(&ask.policy), event, Some(answer("done"))).await {
                    Ok(applied) => break assert_eq!(applied.refused, None),
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
            }
        });
    }
    let mut cut = 0;
    while !commands.is_empty() {
        cut += cutter.query_one(CUT, &[]).await.unwrap().get::<_, i64>(0);
        let some = tokio::time::timeout(Duration::from_millis(30), commands.join_next()).await;
        if let Ok(Some(ended)) = some {
            ended.unwrap();
        }
        while let Some(ended) = commands.try_join_next() {
            ended.unwrap();
        }
    }
    assert!(cut > 0);
    let counted = "SELECT count(*) FROM idempotency_keys WHERE state = 'completed' AND attempt = 1";
    assert_eq!(cutter.query_one(counted, &[]).await.unwrap().get::<_, i64>(0), 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_is_waited_for_and_nobody_is_judged_by_its_silence() {
    let Some(server) = server_of_its_own(&[]) else { return };
    let store = Store::open(options(&server).connect_timeout(Duration::from_millis(500))).await.unwrap();
    let lease = Duration::from_millis(1500);
    let policy = Policy::new("orders.create").lease(lease);
    until(async || store.may_judge(lease)).await;
    let (id, fence) = run(&store, &ask_under("k1", policy.clone())).await;
    let hold = store.hold(id, fence, &policy, store.clock().monotonic());
    tokio::task::block_in_place(|| server.stop("immediate"));
    let error = store.deliver(ask("k2")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    let problem = crate::Problem::from(error);
    assert_eq!(problem.code, Code::StoreUnavailable);
    tokio::time::sleep(lease).await;
    tokio::task::block_in_place(|| server.start_again());
    until(async || store.ready().await.is_ok()).await;
    assert!(!store.may_judge(lease), "whoever holds a claim could not renew it either");
    let retry = Ask { holder: holder(2), ..ask_under("k1", policy.clone()) };
    assert_eq!(store.deliver(retry).await.unwrap().say, Say::Wait);
    assert!(hold.stands());
    let ended = finish(&store, &ask_under("k1", policy), id, fence).await;
    assert_eq!(ended.record.unwrap().state, State::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_timeline_sets_the_horizon_before_anything_is_served() {
    let Some(server) = server_of_its_own(&["fsync=off"]) else { return };
    let store = alone(&server).await;
    let behind = client(&server, "postgres").await;
    let count = async |sql: &str| behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    let horizons = "SELECT count(*) FROM samekey_meta WHERE name = 'horizon'";
    assert_eq!(count(horizons).await, 0, "creating a store does not set it");
    let (id, fence) = run(&store, &ask("running")).await;
    let (released, by) = run(&store, &ask("released")).await;
    let event = Event::Finish(by, Finish::Released { not_before: None });
    store.apply(released, ask("k").policy, event, None).await.unwrap();
    // As after a failover: what is kept is the timeline of the server that failed.
    behind.execute("UPDATE samekey_meta SET value = '1:00000001' WHERE name = 'timeline'", &[]).await.unwrap();
    let second = alone(&server).await;
    assert_eq!(count(horizons).await, 1);
    for key in ["running", "released"] {
        let record = second.find(&ask(key)).await.unwrap().unwrap().record;
        assert_eq!((record.state, record.reason), (State::Uncertain, Some(Reason::Restore)));
        assert!(record.settle_after.unwrap() > store.now() + s(80), "a claim that is lost may still be under way");
    }
    let unknown = second.deliver(ask("unknown")).await.unwrap();
    assert_eq!(unknown.say, Say::Refuse(Code::OutcomeUncertain));
    let late = finish(&second, &ask("running"), id, fence).await;
    assert!(late.refused.is_some(), "another holder may have run since");

    // A server that runs on notices by its connections, which do not outlive the server they were made to.
    behind.execute("UPDATE samekey_meta SET value = '1:00000001' WHERE name = 'timeline'", &[]).await.unwrap();
    behind.execute("DELETE FROM samekey_meta WHERE name = 'horizon'", &[]).await.unwrap();
    let third = Store::open(options(&server)).await.unwrap();
    assert_eq!(count(horizons).await, 1);
    third.close().await;
    let current = "SELECT count(*) FROM samekey_meta WHERE name = 'timeline' AND value <> '1:00000001'";
    assert_eq!(count(current).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_fit_is_refused_by_name() {
    let Some(server) = server_of_its_own(&["fsync=off"]) else { return };
    alone(&server).await.close().await;
    let behind = client(&server, "postgres").await;
    behind.execute("UPDATE samekey_meta SET value = '99' WHERE name = 'schema'", &[]).await.unwrap();
    let error = Store::open(options(&server)).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error}");
    behind.batch_execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'").await.unwrap();
    let error = Store::postgres(&server.url("latin")).await.unwrap_err();
    assert!(error.to_string().contains("UTF8"), "{error}");
    let error = Store::postgres(&server.url("nowhere")).await.unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    behind.batch_execute("ALTER SYSTEM SET default_transaction_read_only = on").await.unwrap();
    behind.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until(async || {
        let error = Store::open(options(&server)).await.unwrap_err();
        matches!(error, StoreError::Unreachable { .. }) && error.to_string().contains("writ")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_text_cannot_hold_does_not_keep_an_answer_from_being_stored() {
    let Some(bench) = Bench::postgres().await else { return };
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let odd = samekey_core::claim::Terminal { result_id: Some("o\0 1".into()), ..terminal(201) };
    let event = Event::Finish(fence, Finish::Terminal(odd));
    bench.store.apply(id, ask("k1").policy, event, Some(answer("done"))).await.unwrap();
    let record = bench.store.find(&ask("k1")).await.unwrap().unwrap().record;
    assert_eq!(record.result_id.as_deref(), Some("o\u{fffd} 1"));
    let error = bench.store.deliver(Ask { actor: Actor::new("an\0n"), ..ask("k2") }).await.unwrap_err();
    assert!(error.to_string().contains("NUL"), "{error}");
    run(&bench.store, &ask("k2")).await;
}
