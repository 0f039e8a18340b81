//! Deliveries and events meet their record.

use samekey_core::claim::transition::Settlement;
use samekey_core::claim::{Reason, Refused, State};
use samekey_core::problem::Code;
use samekey_core::{KeyTime, Timeless};
use tokio::task::JoinSet;

use super::*;

async fn a_finished_command_is_replayed_byte_for_byte(bench: Bench) {
    let first = ask("k1");
    assert!(bench.store.peek(&first).await.unwrap().is_none(), "no record yet");
    let (id, fence) = run(&bench.store, &first).await;
    assert!(bench.store.peek(&first).await.unwrap().is_none(), "the same holder gets its claim from the writer");
    let applied = finish(&bench.store, &first, id, fence).await;
    assert_eq!((applied.record.unwrap().state, applied.refused), (State::Completed, None));

    let retry = Ask { holder: holder(2), ..ask("k1") };
    let peeked = bench.store.peek(&retry).await.unwrap().unwrap();
    let told = bench.store.deliver(retry).await.unwrap();
    for told in [peeked, told] {
        assert_eq!(told.say, Say::Replay);
        assert_eq!(told.response, Some(answer("done")));
        let record = told.found.unwrap().record;
        assert_eq!((record.status_code, record.result_id.as_deref()), (Some(201), Some("o1")));
    }
}

async fn an_answer_without_body_and_headers_is_an_answer(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let event = Event::Finish(fence, Finish::Terminal(terminal(204)));
    bench.store.apply(id, ask("k1").policy, event, Some(StoredResponse::default())).await.unwrap();
    let told = bench.store.peek(&ask("k1")).await.unwrap().unwrap();
    assert_eq!((told.say, told.response), (Say::Replay, Some(StoredResponse::default())));
}

async fn an_answer_that_did_not_come_along_is_not_said_to_be_stored(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let event = Event::Finish(fence, Finish::Terminal(terminal(200)));
    let applied = bench.store.apply(id, ask("k1").policy, event, None).await.unwrap();
    assert!(!applied.record.unwrap().has_response);
    let told = bench.store.peek(&ask("k1")).await.unwrap().unwrap();
    assert_eq!(told.say, Say::Refuse(Code::ResponseNotStored));
}

async fn a_hundred_deliveries_of_one_key_make_one_run(bench: Bench) {
    let second = bench.second().await;
    let mut deliveries = JoinSet::new();
    for number in 0..100 {
        let store = if number % 2 == 0 { bench.store.clone() } else { second.clone() };
        deliveries.spawn(async move { store.deliver(Ask { holder: holder(number), ..ask("k1") }).await.unwrap().say });
    }
    let said = deliveries.join_all().await;
    assert_eq!(said.iter().filter(|say| matches!(say, Say::Run(_))).count(), 1);
    assert_eq!(said.iter().filter(|say| **say == Say::Wait).count(), 99);
}

async fn the_same_holder_gets_the_same_claim_and_another_waits(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    assert_eq!(run(&bench.store, &ask("k1")).await, (id, fence));
    let other = Ask { holder: holder(2), ..ask("k1") };
    assert_eq!(bench.store.peek(&other).await.unwrap().unwrap().say, Say::Wait);
    assert_eq!(bench.store.deliver(other).await.unwrap().say, Say::Wait);
}

async fn scopes_are_apart_and_names_are_one(bench: Bench) {
    let automatic = Ask { operation: "POST /orders".into(), also: Vec::new(), ..ask("k1") };
    let (id, _) = run(&bench.store, &automatic).await;
    let named = Ask { holder: holder(2), ..ask("k1") };
    let told = bench.store.deliver(named).await.unwrap();
    assert_eq!((told.say, told.found.unwrap().id), (Say::Wait, id), "found under its former name");
    run(&bench.store, &Ask { actor: Actor::new("bob"), ..ask("k1") }).await;
    run(&bench.store, &Ask { operation: "orders.pay".into(), also: Vec::new(), ..ask("k1") }).await;
    assert_eq!(bench.count("idempotency_keys").await, 3);
}

async fn another_payload_never_runs_and_another_profile_is_named(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let other = Ask { fingerprint: fingerprint(&ask("k1").profile, 2), ..ask("k1") };
    let told = bench.store.deliver(other.clone()).await.unwrap();
    assert_eq!(told.say, Say::Refuse(Code::KeyPayloadMismatch), "while the first runs");
    finish(&bench.store, &ask("k1"), id, fence).await;
    let told = bench.store.peek(&other).await.unwrap().unwrap();
    assert_eq!((told.say, told.response), (Say::Refuse(Code::KeyPayloadMismatch), None));

    let profile = Profile::new(Some("/v2/orders".into()), Significant::default()).unwrap();
    let deployed = Ask { fingerprint: fingerprint(&profile, 1), profile: Arc::new(profile), ..ask("k1") };
    let bound = ask("k1").profile;
    for told in
        [bench.store.peek(&deployed).await.unwrap().unwrap(), bench.store.deliver(deployed.clone()).await.unwrap()]
    {
        assert_eq!(told.say, Say::OtherProfile(bound.id()));
        assert_eq!(told.profile.as_ref(), Some(&*bound));
    }
}

async fn the_quota_counts_an_actors_keys_in_progress(bench: Bench) {
    let under = |key: &str| ask_under(key, Policy::new("orders.create").quota(2));
    let (id, fence) = run(&bench.store, &under("k1")).await;
    run(&bench.store, &under("k2")).await;
    let third = bench.store.deliver(under("k3")).await.unwrap();
    assert_eq!((third.say, third.found.is_none()), (Say::Refuse(Code::QuotaExceeded), true));
    run(&bench.store, &Ask { actor: Actor::new("bob"), ..under("k3") }).await;
    assert_eq!(bench.store.deliver(Ask { holder: holder(2), ..under("k1") }).await.unwrap().say, Say::Wait);
    finish(&bench.store, &under("k1"), id, fence).await;
    run(&bench.store, &under("k3")).await;
}

async fn a_key_known_under_other_credentials_does_not_run(bench: Bench) {
    let key = "pay-f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
    let fenced = |actor: &str, key: &str| Ask { actor: Actor::new(actor), fence_credentials: true, ..ask(key) };
    let (id, fence) = run(&bench.store, &fenced("token-1", key)).await;
    finish(&bench.store, &fenced("token-1", key), id, fence).await;
    let told = bench.store.deliver(fenced("token-2", key)).await.unwrap();
    assert_eq!((told.say, told.found.is_none()), (Say::Refuse(Code::ActorChanged), true));
    let alias = Ask { operation: "POST /orders".into(), also: vec!["orders.create".into()], ..fenced("token-2", key) };
    assert_eq!(bench.store.deliver(alias).await.unwrap().say, Say::Refuse(Code::ActorChanged));
    let elsewhere = Ask { operation: "orders.pay".into(), also: Vec::new(), ..fenced("token-2", key) };
    run(&bench.store, &elsewhere).await;
    run(&bench.store, &fenced("token-1", "order-17")).await;
    run(&bench.store, &fenced("token-2", "order-17")).await;
}

async fn memory_begins_with_the_stores_creation_less_remember(bench: Bench) {
    let remember = Policy::new("a").remember;
    let told = bench.store.deliver(ask(&minted(START - remember))).await.unwrap();
    assert_eq!(told.say, Say::Refuse(Code::KeyExpired));
    run(&bench.store, &ask(&minted(START - remember + Duration::from_millis(1)))).await;
    let entity = Policy::new("orders.create").key_time(KeyTime::None);
    run(&bench.store, &ask_under(&minted(START - remember), entity)).await;
}

async fn a_key_is_forgotten_together_with_the_move_of_the_mark(bench: Bench) {
    let key = minted(START);
    let first = ask(&key);
    let (id, fence) = run(&bench.store, &first).await;
    finish(&bench.store, &first, id, fence).await;
    let sweep = |forget_limit| Event::Sweep { key_time: Some(START), forget_limit };
    bench.advance(first.policy.retention).await;
    let swept = bench.store.apply(id, Arc::clone(&first.policy), sweep(START), None).await.unwrap();
    assert_eq!(swept.record.unwrap().state, State::Expired);
    assert_eq!(bench.store.peek(&first).await.unwrap().unwrap().say, Say::Refuse(Code::ResponseNotStored));
    let bytes = bench.number("SELECT count(response_body) + count(response_headers) FROM idempotency_keys").await;
    assert_eq!(bytes, 0, "the response is gone");

    bench.advance(first.policy.remember).await;
    let swept = bench.store.apply(id, Arc::clone(&first.policy), sweep(START), None).await.unwrap();
    assert_eq!((swept.record, swept.refused), (None, None));
    assert_eq!(bench.store.deliver(first.clone()).await.unwrap().say, Say::Refuse(Code::KeyExpired));
    let renamed = Ask { operation: "orders.make".into(), also: vec!["orders.create".into()], ..first.clone() };
    assert_eq!(bench.store.deliver(renamed).await.unwrap().say, Say::Refuse(Code::KeyExpired));
    run(&bench.store, &Ask { operation: "orders.pay".into(), also: Vec::new(), ..first.clone() }).await;
    let later = minted(START + Duration::from_millis(1));
    run(&bench.store, &ask(&later)).await;
}

async fn operations_outside_the_configuration_share_one_mark(bench: Bench) {
    let policy = Policy::new("POST /a");
    let first = Ask { also: Vec::new(), configured: false, ..ask_under(&minted(START), policy.clone()) };
    let (id, fence) = run(&bench.store, &first).await;
    finish(&bench.store, &first, id, fence).await;
    bench.advance(policy.retention + policy.remember).await;
    for _ in 0..2 {
        let event = Event::Sweep { key_time: Some(START), forget_limit: START };
        bench.store.apply(id, Arc::clone(&first.policy), event, None).await.unwrap();
    }
    assert_eq!(bench.count("samekey_forgotten_before WHERE operation = ''").await, 1);
    let other = Ask { operation: "POST /b".into(), ..first.clone() };
    assert_eq!(bench.store.deliver(other).await.unwrap().say, Say::Refuse(Code::KeyExpired));
    let since_named = Ask { operation: "a".into(), also: vec!["POST /a".into()], configured: true, ..first };
    assert_eq!(bench.store.deliver(since_named).await.unwrap().say, Say::Refuse(Code::KeyExpired));
}

async fn before_the_horizon_absence_proves_nothing(bench: Bench) {
    bench.set_horizon(START).await;
    let told = bench.store.deliver(ask(&minted(START))).await.unwrap();
    assert_eq!(told.say, Say::Refuse(Code::OutcomeUncertain));
    let found = told.found.unwrap();
    assert_eq!((found.record.state, found.record.reason), (State::Uncertain, Some(Reason::Restore)));
    assert_ne!(found.record.fence.holder, holder(1), "whoever was refused holds nothing");
    let event = Event::Operator {
        revision: found.record.revision,
        looked_at: found.record.settle_after.unwrap(),
        force: false,
        settlement: Settlement::Released,
    };
    let applied = bench.store.apply(found.id, ask("k").policy, event, None).await.unwrap();
    assert_eq!(applied.record.unwrap().state, State::Released);
    run(&bench.store, &ask(&minted(START))).await;
}

async fn what_a_stale_holder_says_changes_nothing(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let stranger = Fence { holder: holder(9), ..fence };
    let applied = finish(&bench.store, &ask("k1"), id, stranger).await;
    assert_eq!(applied.refused, Some(Refused::Stale { state: State::InProgress }));
    let nobody = finish(&bench.store, &ask("k1"), RecordId(99), fence).await;
    assert!(nobody.record.is_none());
    finish(&bench.store, &ask("k1"), id, fence).await;
    let again = finish(&bench.store, &ask("k1"), id, fence).await;
    assert_eq!(again.refused, None, "saying the same twice is right");
}

async fn a_record_that_cannot_be_read_is_an_error_and_never_a_run(bench: Bench) {
    for (key, column, value) in [
        ("k1", "payload_hash", "fp9:raw:00000000:00"),
        ("k2", "payload_hash", "nonsense"),
        ("k3", "reason", "spite"),
        ("k4", "ended", "badly"),
    ] {
        run(&bench.store, &ask(key)).await;
        bench.sql(&format!("UPDATE idempotency_keys SET {column} = '{value}' WHERE idem_key = '{key}'")).await;
        for error in [bench.store.peek(&ask(key)).await.map(drop), bench.store.deliver(ask(key)).await.map(drop)] {
            let error = error.unwrap_err();
            assert!(matches!(error, crate::store::StoreError::Unreadable { .. }), "{error}");
            assert!(error.to_string().contains(column), "{error}");
        }
    }
    let (id, fence) = run(&bench.store, &ask("k5")).await;
    finish(&bench.store, &ask("k5"), id, fence).await;
    bench.sql("DELETE FROM samekey_profiles").await;
    let profile = Profile::new(None, Significant::default()).unwrap();
    let deployed = Ask { fingerprint: fingerprint(&profile, 1), profile: Arc::new(profile), ..ask("k5") };
    let error = bench.store.deliver(deployed).await.unwrap_err();
    assert!(error.to_string().contains("profile"), "{error}");
}

async fn timeless_keys_are_new_again_unless_kept(bench: Bench) {
    for (timeless, runs) in [(Timeless::Forget, true), (Timeless::Keep, false)] {
        let key = format!("order-{runs}");
        let first = ask_under(&key, Policy::new("orders.create").timeless(timeless));
        let (id, fence) = run(&bench.store, &first).await;
        finish(&bench.store, &first, id, fence).await;
        bench.advance(first.policy.retention + first.policy.remember).await;
        for _ in 0..2 {
            let event = Event::Sweep { key_time: None, forget_limit: START };
            bench.store.apply(id, Arc::clone(&first.policy), event, None).await.unwrap();
        }
        let told = bench.store.deliver(first).await.unwrap();
        assert_eq!(matches!(told.say, Say::Run(_)), runs, "{told:?}");
    }
}

super::cases! {
    a_finished_command_is_replayed_byte_for_byte,
    an_answer_without_body_and_headers_is_an_answer,
    an_answer_that_did_not_come_along_is_not_said_to_be_stored,
    a_hundred_deliveries_of_one_key_make_one_run,
    the_same_holder_gets_the_same_claim_and_another_waits,
    scopes_are_apart_and_names_are_one,
    another_payload_never_runs_and_another_profile_is_named,
    the_quota_counts_an_actors_keys_in_progress,
    a_key_known_under_other_credentials_does_not_run,
    memory_begins_with_the_stores_creation_less_remember,
    a_key_is_forgotten_together_with_the_move_of_the_mark,
    operations_outside_the_configuration_share_one_mark,
    before_the_horizon_absence_proves_nothing,
    what_a_stale_holder_says_changes_nothing,
    a_record_that_cannot_be_read_is_an_error_and_never_a_run,
    timeless_keys_are_new_again_unless_kept,
}
