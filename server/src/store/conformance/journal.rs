//! Effects and trail, as the file holds them.

use samekey_core::claim::effects::{Call, CallEnd, Input};
use samekey_core::claim::transition::Settlement;
use samekey_core::claim::{Reason, State};

use super::*;
use crate::store::{By, EffectEnd, EffectNoted, EffectStart, EffectTold, Note};

fn start(id: RecordId, fence: Fence, name: &str) -> EffectStart {
    let input = Some(Input([1; 32]));
    EffectStart { id, fence, name: name.into(), call: Call([1; 16]), input, provider_key: format!("p-{name}") }
}

fn end(id: RecordId, fence: Fence, name: &str, end: CallEnd, result: &'static str) -> EffectEnd {
    EffectEnd { id, fence, name: name.into(), end, result: Bytes::from_static(result.as_bytes()) }
}

async fn an_effect_is_called_once_and_its_result_is_given_again(bench: Bench) {
    let (store, ask) = (&bench.store, ask("k1"));
    let (id, fence) = run(store, &ask).await;
    let begin = async |start| store.start_effect(start, Arc::clone(&ask.policy)).await.unwrap();
    assert_eq!(begin(start(id, fence, "charge")).await, EffectTold::Go);
    assert_eq!(begin(start(id, fence, "charge")).await, EffectTold::Go, "the same call again");
    let second = EffectStart { call: Call([2; 16]), ..start(id, fence, "charge") };
    assert_eq!(begin(second.clone()).await, EffectTold::Unknown, "another call");
    assert_eq!(begin(EffectStart { input: None, ..second.clone() }).await, EffectTold::OtherInput);
    let done = end(id, fence, "charge", CallEnd::Done, "ch_1");
    assert_eq!(store.end_effect(done.clone()).await.unwrap(), EffectNoted::Kept);
    assert_eq!(store.end_effect(done.clone()).await.unwrap(), EffectNoted::Kept, "told twice");
    let other = EffectEnd { result: Bytes::from_static(b"ch_2"), ..done };
    assert_eq!(store.end_effect(other).await.unwrap(), EffectNoted::Stale(Some(State::InProgress)));
    assert_eq!(begin(second).await, EffectTold::Done(Bytes::from_static(b"ch_1")));
    let not_started = end(id, fence, "ship", CallEnd::Done, "");
    assert_eq!(store.end_effect(not_started).await.unwrap(), EffectNoted::NotStarted);
    let stranger = Fence { holder: holder(9), ..fence };
    assert_eq!(begin(start(id, stranger, "ship")).await, EffectTold::Stale(Some(State::InProgress)));

    let listed = store.effects(id).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].name.as_str(), listed[0].end), ("charge", Some(CallEnd::Done)));
    assert_eq!((listed[0].provider_key.as_str(), listed[0].attempt), ("p-charge", 1));
    let record = store.find(&ask).await.unwrap().unwrap().record;
    assert_eq!((record.effects.open, record.effects.finished), (0, 1));
}

async fn nothing_is_called_once_the_lease_is_over(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    bench.advance(s(30)).await;
    let told = bench.store.start_effect(start(id, fence, "charge"), ask("k1").policy).await.unwrap();
    assert_eq!(told, EffectTold::Stale(Some(State::InProgress)));
    assert_eq!(bench.count("idempotency_effects").await, 0);
}

async fn an_operator_who_releases_closes_open_effects_and_leaves_name_and_reason(bench: Bench) {
    let (store, ask) = (&bench.store, ask("k1"));
    let (id, fence) = run(store, &ask).await;
    store.start_effect(start(id, fence, "charge"), Arc::clone(&ask.policy)).await.unwrap();
    let finish = |finish| Event::Finish(fence, finish);
    store.apply(id, Arc::clone(&ask.policy), finish(Finish::Uncertain(Reason::NoAnswer)), None).await.unwrap();
    bench.advance(s(90)).await;
    let seen = store.find(&ask).await.unwrap().unwrap().record;
    let event = Event::Operator {
        revision: seen.revision,
        looked_at: store.now(),
        force: false,
        settlement: Settlement::Released,
    };
    let note = Note { who: Some("ann".into()), why: Some("the provider has no such charge".into()) };
    let settled = store.apply_noted(id, Arc::clone(&ask.policy), event, None, note).await.unwrap();
    assert_eq!(settled.record.unwrap().state, State::Released);
    assert_eq!(store.effects(id).await.unwrap()[0].end, Some(CallEnd::NotApplied));

    let again = Ask { holder: holder(2), request_id: Some("r2".into()), ..ask.clone() };
    let (_, second) = run(store, &again).await;
    let told = store.start_effect(start(id, second, "charge"), Arc::clone(&ask.policy)).await.unwrap();
    assert_eq!(told, EffectTold::Go, "what was not applied may be called again");

    let steps = store.trail(id).await.unwrap();
    let told: Vec<_> =
        steps.iter().map(|step| (step.state, step.by, step.attempt, step.request_id.as_deref())).collect();
    assert_eq!(
        told,
        [
            (State::Uncertain, By::Handler, 1, Some("r1")),
            (State::Released, By::Operator, 1, Some("r1")),
            (State::InProgress, By::Delivery, 2, Some("r2")),
        ]
    );
    assert_eq!((steps[0].reason, steps[1].who.as_deref()), (Some(Reason::NoAnswer), Some("ann")));
    assert_eq!(steps[1].why.as_deref(), Some("the provider has no such charge"));
}

async fn an_ordinary_command_leaves_no_trail_and_a_forgotten_one_nothing_at_all(bench: Bench) {
    let (store, ask) = (&bench.store, ask("k1"));
    let (id, fence) = run(store, &ask).await;
    store.start_effect(start(id, fence, "charge"), Arc::clone(&ask.policy)).await.unwrap();
    store.end_effect(end(id, fence, "charge", CallEnd::Done, "ch_1")).await.unwrap();
    finish(store, &ask, id, fence).await;
    assert!(store.trail(id).await.unwrap().is_empty());
    let sweep = || Event::Sweep { key_time: None, forget_limit: START };
    bench.advance(s(8 * 86_400)).await;
    store.apply(id, Arc::clone(&ask.policy), sweep(), None).await.unwrap();
    assert_eq!(bench.count("idempotency_effects").await, 0, "a tombstone has no journal");
    bench.advance(s(31 * 86_400)).await;
    assert!(store.apply(id, Arc::clone(&ask.policy), sweep(), None).await.unwrap().record.is_none());
    assert_eq!([bench.count("idempotency_keys").await, bench.count("idempotency_trail").await], [0, 0]);
}

super::cases! {
    an_effect_is_called_once_and_its_result_is_given_again,
    nothing_is_called_once_the_lease_is_over,
    an_operator_who_releases_closes_open_effects_and_leaves_name_and_reason,
    an_ordinary_command_leaves_no_trail_and_a_forgotten_one_nothing_at_all,
}
