//! What the sweeper does to records, and when.

use super::*;
use crate::store::Swept;
use samekey_core::claim::State;
use samekey_core::problem::Code;
use samekey_core::{KeyTime, Timeless};

const DAY: Duration = Duration::from_secs(86_400);
const REMEMBER: Duration = DAY.saturating_mul(30);

/// A store that sweeps when it is told to, under this contract.
async fn bench(policy: Policy) -> (Bench, Policy) {
    let bench = Bench::new().await;
    bench.store.policies().add(policy.clone());
    (bench, policy)
}

/// Sweeps until nothing is due.
async fn sweep(store: &Store) -> Swept {
    let mut all = Swept { more: true, ..Swept::default() };
    while all.more {
        let Swept { expired, forgotten, more, next } = store.sweep().await.unwrap();
        all = Swept { expired: all.expired + expired, forgotten: all.forgotten + forgotten, more, next };
    }
    all
}

/// Runs a command to its end.
async fn done(store: &Store, ask: &Ask) -> RecordId {
    let (id, fence) = run(store, ask).await;
    finish(store, ask, id, fence).await;
    id
}

async fn say(store: &Store, ask: &Ask) -> Say {
    store.deliver(ask.clone()).await.unwrap().say
}

#[tokio::test]
async fn an_answer_is_dropped_at_the_moment_it_is_due_and_not_before() {
    let (bench, policy) = bench(Policy::new("orders.create")).await;
    let ask = ask("k");
    let id = done(&bench.store, &ask).await;
    let due = Some(policy.retention);
    assert_eq!(sweep(&bench.store).await, Swept { next: due, ..Swept::default() });
    bench.hands.advance(policy.retention - Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.expired, 0);
    assert!(bench.store.response(id).await.unwrap().is_some());
    bench.hands.advance(Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.expired, 1);
    assert_eq!(bench.store.response(id).await.unwrap(), None);
    let found = bench.store.find(&ask).await.unwrap().unwrap();
    assert_eq!(found.record.state, State::Expired);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::ResponseNotStored));
}

#[tokio::test]
async fn the_store_sweeps_by_itself() {
    let bench = Bench::attended().await;
    let ask = ask("k");
    let id = done(&bench.store, &ask).await;
    bench.hands.advance(ask.policy.retention);
    let swept = async {
        while bench.store.response(id).await.unwrap().is_some() {
            bench.hands.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), swept).await.expect("what is due is swept");
}

#[tokio::test]
async fn a_forgotten_key_that_carries_its_time_is_expired_and_any_other_is_new_again() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let (carried, plain) = (ask(&minted(START)), ask("order-17"));
    done(&bench.store, &carried).await;
    done(&bench.store, &plain).await;
    bench.hands.advance(REMEMBER - Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.hands.advance(Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.forgotten, 2);
    assert_eq!(count(&bench.path(), "idempotency_keys"), 0);
    assert_eq!(say(&bench.store, &carried).await, Say::Refuse(Code::KeyExpired));
    assert!(matches!(say(&bench.store, &plain).await, Say::Run(_)));
    let newer = ask(&minted(START + Duration::from_millis(1)));
    assert!(matches!(say(&bench.store, &newer).await, Say::Run(_)), "the mark is the key's own time and no more");
}

#[tokio::test]
async fn a_key_from_the_future_is_remembered_until_its_own_time_is_old() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let ahead = ask(&minted(START + Duration::from_secs(200)));
    done(&bench.store, &ahead).await;
    bench.hands.advance(REMEMBER);
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.hands.advance(Duration::from_secs(200));
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(say(&bench.store, &ahead).await, Say::Refuse(Code::KeyExpired));
}

#[tokio::test]
async fn keys_without_a_time_are_kept_where_the_operation_says_so() {
    let policy = Policy::new("orders.create").key_time(KeyTime::None).timeless(Timeless::Keep);
    let (bench, policy) = bench(policy).await;
    let ask = ask_under(&minted(START), policy);
    done(&bench.store, &ask).await;
    bench.hands.advance(REMEMBER * 2);
    for _ in 0..3 {
        assert_eq!(sweep(&bench.store).await.forgotten, 0);
        assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::ResponseNotStored));
        bench.hands.advance(REMEMBER);
    }
    bench.store.policies().add(Policy::new("orders.create"));
    assert_eq!(sweep(&bench.store).await.forgotten, 1, "another contract lets it go when it is looked at again");
}

#[tokio::test]
async fn what_another_process_named_expires_and_is_not_forgotten() {
    let (bench, _) = bench(Policy::new("orders.cancel")).await;
    let ask = ask("k");
    done(&bench.store, &ask).await;
    bench.hands.advance(REMEMBER * 3);
    assert_eq!(sweep(&bench.store).await.expired, 1);
    bench.hands.advance(REMEMBER);
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.store.policies().add(Policy::new("orders.create"));
    bench.hands.advance(DAY);
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
}

#[tokio::test]
async fn a_stepped_wall_clock_forgets_nothing() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let (carried, plain) = (ask(&minted(START)), ask("order-17"));
    done(&bench.store, &carried).await;
    done(&bench.store, &plain).await;
    bench.hands.set_wall(START + REMEMBER * 40);
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.hands.set_wall(START);
    for ask in [&carried, &plain] {
        assert_eq!(say(&bench.store, ask).await, Say::Refuse(Code::ResponseNotStored));
    }
    bench.hands.advance(REMEMBER);
    assert_eq!(sweep(&bench.store).await.forgotten, 2, "and it goes on as if nothing had been");
}

#[tokio::test]
async fn a_clock_that_was_set_back_makes_no_forgotten_key_new() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let ask = ask(&minted(START));
    done(&bench.store, &ask).await;
    bench.hands.advance(REMEMBER);
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    bench.hands.set_wall(START - DAY);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired), "not one from the future");
}

#[tokio::test]
async fn a_key_that_seemed_to_be_ahead_of_a_slow_clock_is_forgotten_with_its_time() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let ask = ask(&minted(START));
    bench.hands.set_wall(START - DAY * 40);
    done(&bench.store, &ask).await;
    bench.hands.advance(REMEMBER + DAY);
    assert_eq!(sweep(&bench.store).await.forgotten, 0, "its own time is not old by that clock");
    bench.hands.set_wall(START + REMEMBER + DAY);
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired));
}

#[tokio::test]
async fn between_two_processes_a_day_may_have_passed_and_no_more() {
    let (bench, policy) = bench(Policy::new("orders.create")).await;
    let ask = ask(&minted(START));
    done(&bench.store, &ask).await;
    bench.hands.advance(REMEMBER - DAY * 2);
    bench.store.close().await;
    for forgotten in [0, 1] {
        // Nobody measures this day and the year after it.
        bench.hands.set_wall(bench.clock.now() + DAY * 366);
        let store = Store::open(bench.options().unattended()).await.unwrap();
        store.policies().add(policy.clone());
        assert_eq!(sweep(&store).await.forgotten, forgotten);
        store.close().await;
    }
}

#[tokio::test]
async fn nothing_is_forgotten_while_a_restored_backup_is_young() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let ask = ask(&minted(START));
    done(&bench.store, &ask).await;
    bench.hands.advance(REMEMBER - DAY);
    let horizon = bench.clock.now();
    beside(&bench.path()).execute("INSERT INTO samekey_meta VALUES ('horizon', ?1)", [horizon.as_millis()]).unwrap();
    bench.hands.advance(DAY);
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.hands.set_wall(bench.clock.now());
    bench.hands.advance(REMEMBER - DAY - Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.hands.advance(Duration::from_millis(1));
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired));
}

#[tokio::test]
async fn a_released_record_goes_with_all_that_belongs_to_it() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let ask = ask(&minted(START));
    let (id, fence) = run(&bench.store, &ask).await;
    let event = Event::Finish(fence, Finish::Released { not_before: None });
    bench.store.apply(id, Arc::clone(&ask.policy), event, None).await.unwrap();
    assert_eq!(count(&bench.path(), "idempotency_trail"), 1);
    assert_eq!(sweep(&bench.store).await.forgotten, 0, "looked at, and put off");
    bench.hands.advance(REMEMBER);
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(count(&bench.path(), "idempotency_trail"), 0);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired));
}

#[tokio::test]
async fn a_record_that_cannot_be_read_does_not_keep_the_others() {
    let (bench, policy) = bench(Policy::new("orders.create")).await;
    let odd = done(&bench.store, &ask("a")).await;
    let id = done(&bench.store, &ask("b")).await;
    beside(&bench.path()).execute("UPDATE idempotency_keys SET payload_hash = 'fp9' WHERE id = ?1", [odd.0]).unwrap();
    bench.hands.advance(policy.retention);
    let swept = sweep(&bench.store).await;
    assert_eq!((swept.expired, swept.more), (1, false));
    assert_eq!(bench.store.response(id).await.unwrap(), None);
    bench.hands.advance(REMEMBER);
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
}

#[tokio::test]
async fn many_are_swept_in_turns_that_nobody_has_to_wait_for() {
    let (bench, policy) = bench(Policy::new("orders.create")).await;
    for number in 0..300 {
        done(&bench.store, &ask(&format!("k{number}"))).await;
    }
    bench.hands.advance(policy.retention);
    let first = bench.store.sweep().await.unwrap();
    assert!(first.more && first.expired < 300, "{first:?}");
    assert_eq!(first.expired + sweep(&bench.store).await.expired, 300);
}

#[tokio::test]
async fn what_is_due_is_found_by_an_index() {
    let (bench, _) = bench(Policy::new("orders.create")).await;
    let of = |condition: &str| -> String {
        let sql = format!("EXPLAIN QUERY PLAN SELECT id FROM idempotency_keys WHERE {condition}");
        beside(&bench.path()).query_row(&sql, [], |row| row.get(3)).unwrap()
    };
    let plan = of("state IN ('completed', 'failed') AND expires_at <= 5 ORDER BY expires_at LIMIT 9");
    assert!(plan.contains("idempotency_keys_expiring"), "{plan}");
    let plan = of("state IN ('expired', 'released') AND coalesce(look_at, finished_at) <= 5 \
         ORDER BY coalesce(look_at, finished_at) LIMIT 9");
    assert!(plan.contains("idempotency_keys_forgettable"), "{plan}");
}

/// The store's own thread may be moving it at the moment.
async fn empty_wal(bench: &Bench) {
    let truncate = |conn: &rusqlite::Connection| {
        while conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap() != 0 {}
    };
    bench.on_writer(truncate).await;
}

#[tokio::test]
async fn space_that_nothing_needs_is_given_back() {
    let (bench, policy) = bench(Policy::new("orders.create")).await;
    for number in 0..160 {
        let ask = ask(&format!("k{number}"));
        let (id, fence) = run(&bench.store, &ask).await;
        let event = Event::Finish(fence, Finish::Terminal(terminal(201)));
        let large = StoredResponse { body: Bytes::from(vec![b'x'; 100_000]), ..answer("") };
        bench.store.apply(id, Arc::clone(&ask.policy), event, Some(large)).await.unwrap();
    }
    empty_wal(&bench).await;
    let size = || std::fs::metadata(bench.path()).unwrap().len();
    let full = size();
    assert!(full > 16_000_000);
    bench.hands.advance(policy.retention);
    assert_eq!(sweep(&bench.store).await.expired, 160);
    let mut turns = 0;
    while bench.store.vacuum().await.unwrap() {
        turns += 1;
        assert!(turns < 10_000, "it comes to an end");
    }
    empty_wal(&bench).await;
    assert!(size() < 5_000_000, "{full} are {} now", size());
    let check: String = beside(&bench.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
