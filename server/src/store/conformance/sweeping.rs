//! What the sweeper does to records, and when.

use super::*;
use crate::store::Swept;
use samekey_core::claim::State;
use samekey_core::problem::Code;
use samekey_core::{KeyTime, Timeless};

const DAY: Duration = Duration::from_secs(86_400);
const REMEMBER: Duration = DAY.saturating_mul(30);

/// The store sweeps when it is told to, under this contract.
fn under(bench: &Bench, policy: Policy) -> Policy {
    bench.store.policies().add(policy.clone());
    policy
}

/// Sweeps until nothing is due.
pub(in crate::store) async fn sweep(store: &Store) -> Swept {
    let mut all = Swept { more: true, ..Swept::default() };
    while all.more {
        let Swept { expired, forgotten, more, next } = store.sweep().await.unwrap();
        all = Swept { expired: all.expired + expired, forgotten: all.forgotten + forgotten, more, next };
    }
    all
}

/// Runs a command to its end.
pub(in crate::store) async fn done(store: &Store, ask: &Ask) -> RecordId {
    let (id, fence) = run(store, ask).await;
    finish(store, ask, id, fence).await;
    id
}

async fn say(store: &Store, ask: &Ask) -> Say {
    store.deliver(ask.clone()).await.unwrap().say
}

async fn an_answer_is_dropped_at_the_moment_it_is_due_and_not_before(bench: Bench) {
    let policy = under(&bench, Policy::new("orders.create"));
    let ask = ask("k");
    let id = done(&bench.store, &ask).await;
    let due = Some(policy.retention);
    assert_eq!(sweep(&bench.store).await, Swept { next: due, ..Swept::default() });
    bench.advance(policy.retention - Duration::from_millis(1)).await;
    assert_eq!(sweep(&bench.store).await.expired, 0);
    assert!(bench.store.response(id).await.unwrap().is_some());
    bench.advance(Duration::from_millis(1)).await;
    assert_eq!(sweep(&bench.store).await.expired, 1);
    assert_eq!(bench.store.response(id).await.unwrap(), None);
    let found = bench.store.find(&ask).await.unwrap().unwrap();
    assert_eq!(found.record.state, State::Expired);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::ResponseNotStored));
}

async fn a_forgotten_key_that_carries_its_time_is_expired_and_any_other_is_new_again(bench: Bench) {
    under(&bench, Policy::new("orders.create"));
    let (carried, plain) = (ask(&minted(START)), ask("order-17"));
    done(&bench.store, &carried).await;
    done(&bench.store, &plain).await;
    bench.advance(REMEMBER - Duration::from_millis(1)).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.advance(Duration::from_millis(1)).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 2);
    assert_eq!(bench.count("idempotency_keys").await, 0);
    assert_eq!(say(&bench.store, &carried).await, Say::Refuse(Code::KeyExpired));
    assert!(matches!(say(&bench.store, &plain).await, Say::Run(_)));
    let newer = ask(&minted(START + Duration::from_millis(1)));
    assert!(matches!(say(&bench.store, &newer).await, Say::Run(_)), "the mark is the key's own time and no more");
}

async fn a_key_from_the_future_is_remembered_until_its_own_time_is_old(bench: Bench) {
    under(&bench, Policy::new("orders.create"));
    let ahead = ask(&minted(START + Duration::from_secs(200)));
    done(&bench.store, &ahead).await;
    bench.advance(REMEMBER).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.advance(Duration::from_secs(200)).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(say(&bench.store, &ahead).await, Say::Refuse(Code::KeyExpired));
}

async fn keys_without_a_time_are_kept_where_the_operation_says_so(bench: Bench) {
    let policy = Policy::new("orders.create").key_time(KeyTime::None).timeless(Timeless::Keep);
    let policy = under(&bench, policy);
    let ask = ask_under(&minted(START), policy);
    done(&bench.store, &ask).await;
    bench.advance(REMEMBER * 2).await;
    for _ in 0..3 {
        assert_eq!(sweep(&bench.store).await.forgotten, 0);
        assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::ResponseNotStored));
        bench.advance(REMEMBER).await;
    }
    bench.store.policies().add(Policy::new("orders.create"));
    assert_eq!(sweep(&bench.store).await.forgotten, 1, "another contract lets it go when it is looked at again");
}

async fn what_another_process_named_expires_and_is_not_forgotten(bench: Bench) {
    under(&bench, Policy::new("orders.cancel"));
    let ask = ask("k");
    done(&bench.store, &ask).await;
    bench.advance(REMEMBER * 3).await;
    assert_eq!(sweep(&bench.store).await.expired, 1);
    bench.advance(REMEMBER).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.store.policies().add(Policy::new("orders.create"));
    bench.advance(DAY).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
}

async fn a_stepped_wall_clock_forgets_nothing(bench: Bench) {
    under(&bench, Policy::new("orders.create"));
    let (carried, plain) = (ask(&minted(START)), ask("order-17"));
    done(&bench.store, &carried).await;
    done(&bench.store, &plain).await;
    bench.set_clock(START + REMEMBER * 40).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.set_clock(START).await;
    for ask in [&carried, &plain] {
        assert_eq!(say(&bench.store, ask).await, Say::Refuse(Code::ResponseNotStored));
    }
    bench.advance(REMEMBER).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 2, "and it goes on as if nothing had been");
}

async fn between_two_processes_a_day_may_have_passed_and_no_more(bench: Bench) {
    let policy = under(&bench, Policy::new("orders.create"));
    let ask = ask(&minted(START));
    done(&bench.store, &ask).await;
    bench.advance(REMEMBER - DAY * 2).await;
    bench.store.close().await;
    for forgotten in [0, 1] {
        // Nobody measures this day and the year after it.
        bench.set_clock(bench.now() + DAY * 366).await;
        let store = bench.second().await;
        store.policies().add(policy.clone());
        assert_eq!(sweep(&store).await.forgotten, forgotten);
        store.close().await;
    }
}

async fn nothing_is_forgotten_while_a_restored_backup_is_young(bench: Bench) {
    under(&bench, Policy::new("orders.create"));
    let ask = ask(&minted(START));
    done(&bench.store, &ask).await;
    bench.advance(REMEMBER - DAY).await;
    let horizon = bench.now();
    bench.set_horizon(horizon).await;
    bench.advance(DAY).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.set_clock(bench.now()).await;
    bench.advance(REMEMBER - DAY - Duration::from_millis(1)).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 0);
    bench.advance(Duration::from_millis(1)).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired));
}

async fn a_released_record_goes_with_all_that_belongs_to_it(bench: Bench) {
    under(&bench, Policy::new("orders.create"));
    let ask = ask(&minted(START));
    let (id, fence) = run(&bench.store, &ask).await;
    let event = Event::Finish(fence, Finish::Released { not_before: None });
    bench.store.apply(id, Arc::clone(&ask.policy), event, None).await.unwrap();
    assert_eq!(bench.count("idempotency_trail").await, 1);
    assert_eq!(sweep(&bench.store).await.forgotten, 0, "looked at, and put off");
    bench.advance(REMEMBER).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(bench.count("idempotency_trail").await, 0);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired));
}

async fn a_record_that_cannot_be_read_does_not_keep_the_others(bench: Bench) {
    let policy = under(&bench, Policy::new("orders.create"));
    let odd = done(&bench.store, &ask("a")).await;
    let id = done(&bench.store, &ask("b")).await;
    bench.sql(&format!("UPDATE idempotency_keys SET payload_hash = 'fp9' WHERE id = {}", odd.0)).await;
    bench.advance(policy.retention).await;
    let swept = sweep(&bench.store).await;
    assert_eq!((swept.expired, swept.more), (1, false));
    assert_eq!(bench.store.response(id).await.unwrap(), None);
    bench.advance(REMEMBER).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
}

async fn many_are_swept_in_turns_that_nobody_has_to_wait_for(bench: Bench) {
    let policy = under(&bench, Policy::new("orders.create"));
    for number in 0..300 {
        done(&bench.store, &ask(&format!("k{number}"))).await;
    }
    bench.advance(policy.retention).await;
    let first = bench.store.sweep().await.unwrap();
    assert!(first.more && first.expired < 300, "{first:?}");
    assert_eq!(first.expired + sweep(&bench.store).await.expired, 300);
}

async fn a_clock_that_was_set_back_makes_no_forgotten_key_new(bench: Bench) {
    under(&bench, Policy::new("orders.create"));
    let ask = ask(&minted(START));
    done(&bench.store, &ask).await;
    bench.advance(REMEMBER).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    bench.set_clock(START - DAY).await;
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired), "not one from the future");
}

async fn a_key_that_seemed_to_be_ahead_of_a_slow_clock_is_forgotten_with_its_time(bench: Bench) {
    under(&bench, Policy::new("orders.create"));
    let ask = ask(&minted(START));
    bench.set_clock(START - DAY * 40).await;
    done(&bench.store, &ask).await;
    bench.advance(REMEMBER + DAY).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 0, "its own time is not old by that clock");
    bench.set_clock(START + REMEMBER + DAY).await;
    assert_eq!(sweep(&bench.store).await.forgotten, 1);
    assert_eq!(say(&bench.store, &ask).await, Say::Refuse(Code::KeyExpired));
}

super::cases! {
    a_clock_that_was_set_back_makes_no_forgotten_key_new,
    a_key_that_seemed_to_be_ahead_of_a_slow_clock_is_forgotten_with_its_time,
    an_answer_is_dropped_at_the_moment_it_is_due_and_not_before,
    a_forgotten_key_that_carries_its_time_is_expired_and_any_other_is_new_again,
    a_key_from_the_future_is_remembered_until_its_own_time_is_old,
    keys_without_a_time_are_kept_where_the_operation_says_so,
    what_another_process_named_expires_and_is_not_forgotten,
    a_stepped_wall_clock_forgets_nothing,
    between_two_processes_a_day_may_have_passed_and_no_more,
    nothing_is_forgotten_while_a_restored_backup_is_young,
    a_released_record_goes_with_all_that_belongs_to_it,
    a_record_that_cannot_be_read_does_not_keep_the_others,
    many_are_swept_in_turns_that_nobody_has_to_wait_for,
}
