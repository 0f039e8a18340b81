//! A key is closed, or whoever wanted it closed hears how it stands.

use samekey_core::claim::{Ended, State};
use samekey_core::problem::Code;
use tokio::task::JoinSet;

use super::*;

async fn close(store: &Store, ask: Ask) -> Say {
    store.close_key(ask).await.unwrap().say
}

async fn an_unknown_key_is_closed_for_good(bench: Bench) {
    let told = bench.store.close_key(ask("k1")).await.unwrap();
    let record = told.found.unwrap().record;
    assert_eq!((told.say, record.state, record.ended), (Say::Closed, State::Expired, Some(Ended::Closed)));
    assert_eq!((record.fence.attempt, record.fingerprint), (0, None));
    assert_eq!(close(&bench.store, ask("k1")).await, Say::Closed);
    let other = Ask { fingerprint: fingerprint(&ask("k1").profile, 2), ..ask("k1") };
    for delivery in [ask("k1"), other] {
        assert_eq!(bench.store.peek(&delivery).await.unwrap().unwrap().say, Say::Refuse(Code::KeyClosed));
        assert_eq!(bench.store.deliver(delivery).await.unwrap().say, Say::Refuse(Code::KeyClosed));
    }
    let second = bench.second().await;
    assert_eq!(close(&second, ask("k1")).await, Say::Closed);
    assert_eq!(bench.count("idempotency_keys").await, 1);
    assert_eq!(bench.count("samekey_profiles").await, 0, "nothing is bound");
    run(&bench.store, &Ask { actor: Actor::new("bob"), ..ask("k1") }).await;
}

async fn what_ran_is_told_as_to_a_delivery(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    assert_eq!(close(&bench.store, ask("k1")).await, Say::Refuse(Code::OperationInProgress));
    finish(&bench.store, &ask("k1"), id, fence).await;
    let told = bench.store.close_key(ask("k1")).await.unwrap();
    assert_eq!((told.say, told.response), (Say::Replay, Some(answer("done"))));
    let (id, fence) = run(&bench.store, &ask("k2")).await;
    let released = Event::Finish(fence, Finish::Released { not_before: None });
    bench.store.apply(id, ask("k2").policy, released, None).await.unwrap();
    assert_eq!(close(&bench.store, ask("k2")).await, Say::Closed);
    let record = bench.store.find(&ask("k2")).await.unwrap().unwrap().record;
    assert_eq!((record.state, record.fence.attempt, record.fingerprint), (State::Expired, 1, None));
}

async fn what_stands_before_a_claim_stands_before_closing(bench: Bench) {
    let old = minted(START - Duration::from_secs(31 * 86_400));
    assert_eq!(close(&bench.store, ask(&old)).await, Say::Refuse(Code::KeyExpired));
    let under = |key: &str| ask_under(key, Policy::new("orders.create").quota(1));
    for key in ["k1", "k2", "k3"] {
        assert_eq!(close(&bench.store, under(key)).await, Say::Closed, "a closed key counts against nothing");
    }
    run(&bench.store, &under("k4")).await;
    assert_eq!(close(&bench.store, under("k5")).await, Say::Refuse(Code::QuotaExceeded));
    let key = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
    let fenced = |actor: &str| Ask { actor: Actor::new(actor), fence_credentials: true, ..ask(key) };
    run(&bench.store, &fenced("token-1")).await;
    assert_eq!(close(&bench.store, fenced("token-2")).await, Say::Refuse(Code::ActorChanged));
}

async fn a_lapsed_claim_is_judged_and_not_closed(bench: Bench) {
    run(&bench.store, &ask("k1")).await;
    bench.advance(s(61)).await;
    assert!(bench.store.may_judge(ask("k1").policy.lease));
    assert_eq!(close(&bench.store, ask("k1")).await, Say::Refuse(Code::OutcomeUncertain));
    let record = bench.store.find(&ask("k1")).await.unwrap().unwrap().record;
    assert_eq!(record.state, State::Uncertain);
}

async fn of_a_close_and_a_delivery_on_two_processes_one_wins(bench: Bench) {
    let second = bench.second().await;
    for round in 0..200 {
        let key = format!("k{round}");
        let (closing, running) =
            if round % 2 == 0 { (bench.store.clone(), second.clone()) } else { (second.clone(), bench.store.clone()) };
        let mut both = JoinSet::new();
        let (close_ask, run_ask) = (ask(&key), ask(&key));
        both.spawn(async move { closing.close_key(close_ask).await.unwrap().say });
        both.spawn(async move { running.deliver(run_ask).await.unwrap().say });
        let said = both.join_all().await;
        let won = |say: &&Say| matches!(say, Say::Closed | Say::Run(_));
        assert_eq!(said.iter().filter(won).count(), 1, "{said:?}");
        let lost = said.iter().find(|say| !won(say)).unwrap();
        assert!(matches!(lost, Say::Refuse(Code::KeyClosed | Code::OperationInProgress)), "{lost:?}");
    }
}

super::cases! {
    an_unknown_key_is_closed_for_good,
    what_ran_is_told_as_to_a_delivery,
    what_stands_before_a_claim_stands_before_closing,
    a_lapsed_claim_is_judged_and_not_closed,
    of_a_close_and_a_delivery_on_two_processes_one_wins,
}
