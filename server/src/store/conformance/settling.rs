//! Races about a record whose outcome nobody knows: whoever comes second hears that it changed.

use samekey_core::claim::effects::Call;
use samekey_core::claim::transition::{Probed, Settlement};
use samekey_core::claim::{Reason, Record, Refused, State};
use samekey_core::{Recovery, Timestamp};

use super::*;
use crate::store::{EffectStart, EffectTold, Look, Note};

pub(in crate::store) fn policy() -> Policy {
    Policy::new("orders.create").recovery(Recovery::Probe)
}

/// A command whose handler ended without an answer.
pub(in crate::store) async fn uncertain(store: &Store, ask: &Ask) -> (RecordId, Fence) {
    let (id, fence) = run(store, ask).await;
    say(store, ask, id, Event::Finish(fence, Finish::Uncertain(Reason::NoAnswer))).await;
    (id, fence)
}

async fn say(store: &Store, ask: &Ask, id: RecordId, event: Event) -> (Record, Option<Refused>) {
    let applied = store.apply(id, Arc::clone(&ask.policy), event, Some(answer("found"))).await.unwrap();
    (applied.record.unwrap(), applied.refused)
}

async fn seen(store: &Store, ask: &Ask) -> Record {
    store.find(ask).await.unwrap().unwrap().record
}

fn release(seen: &Record, looked_at: Timestamp) -> Event {
    Event::Operator { revision: seen.revision, looked_at, force: false, settlement: Settlement::Released }
}

fn complete(seen: &Record, looked_at: Timestamp) -> Event {
    let settlement = Settlement::Ended(terminal(200));
    Event::Operator { revision: seen.revision, looked_at, force: false, settlement }
}

fn probed(seen: &Record, asked_at: Timestamp, verdict: Probed) -> Event {
    Event::Probe { revision: seen.revision, asked_at, verdict }
}

fn refused(said: &(Record, Option<Refused>), state: State) -> bool {
    said.1 == Some(Refused::Nothing { state })
}

async fn an_operator_who_looked_before_the_holder_finished_settles_nothing(bench: Bench) {
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let (id, fence) = uncertain(store, &ask).await;
    bench.advance(s(200)).await;
    let (looked, at) = (seen(store, &ask).await, store.now());
    let late = say(store, &ask, id, Event::Finish(fence, Finish::Terminal(terminal(201)))).await;
    assert_eq!((late.0.state, late.1), (State::Completed, None), "the late answer settles it");
    assert!(refused(&say(store, &ask, id, release(&looked, at)).await, State::Completed));
    assert!(refused(&say(store, &ask, id, complete(&looked, at)).await, State::Completed));
    assert_eq!(seen(store, &ask).await.status_code, Some(201));
}

async fn an_operator_who_looked_before_nothing_could_be_under_way_releases_nothing(bench: Bench) {
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let (id, _) = uncertain(store, &ask).await;
    let (looked, at) = (seen(store, &ask).await, store.now());
    bench.advance(s(200)).await;
    assert!(refused(&say(store, &ask, id, release(&looked, at)).await, State::Uncertain));
    assert_eq!(say(store, &ask, id, release(&looked, store.now())).await.0.state, State::Released);
}

async fn a_stale_holder_changes_nothing_after_it_was_settled(bench: Bench) {
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let (id, fence) = uncertain(store, &ask).await;
    bench.advance(s(200)).await;
    let looked = seen(store, &ask).await;
    let settled = say(store, &ask, id, complete(&looked, store.now())).await.0;
    assert_eq!(settled.state, State::Completed);
    let stale = Some(Refused::Stale { state: State::Completed });
    for event in [
        Event::Renew(fence),
        Event::Start(fence),
        Event::Finish(fence, Finish::Terminal(terminal(201))),
        Event::Finish(fence, Finish::Terminal(terminal(422))),
        Event::Finish(fence, Finish::Released { not_before: None }),
        Event::Finish(fence, Finish::Uncertain(Reason::NoAnswer)),
    ] {
        assert_eq!(say(store, &ask, id, event.clone()).await, (settled.clone(), stale), "{event:?}");
    }
    let input = None;
    let start = EffectStart { id, fence, name: "charge".into(), call: Call([1; 16]), input, provider_key: "p".into() };
    let told = store.start_effect(start, Arc::clone(&ask.policy)).await.unwrap();
    assert_eq!(told, EffectTold::Stale(Some(State::Completed)));
    assert_eq!(store.response(id).await.unwrap(), Some(answer("found")), "the answer that was given stays");
}

async fn a_holder_whose_record_was_released_may_still_finish_until_the_key_ran_again(bench: Bench) {
    for ran_again in [false, true] {
        let (store, ask) = (&bench.store, ask_under(if ran_again { "k1" } else { "k2" }, policy()));
        let (id, fence) = uncertain(store, &ask).await;
        bench.advance(s(200)).await;
        let looked = seen(store, &ask).await;
        say(store, &ask, id, probed(&looked, store.now(), Probed::Absent)).await;
        if ran_again {
            run(store, &Ask { holder: holder(2), ..ask.clone() }).await;
        }
        let late = say(store, &ask, id, Event::Finish(fence, Finish::Terminal(terminal(201)))).await;
        let expected = if ran_again { State::InProgress } else { State::Completed };
        assert_eq!((late.0.state, late.1.is_some()), (expected, ran_again));
    }
}

async fn of_two_probers_with_crossed_answers_the_first_one_counts(bench: Bench) {
    for (key, first, second, state) in [
        ("k1", Probed::Done(terminal(200)), Probed::Absent, State::Completed),
        ("k2", Probed::Absent, Probed::Done(terminal(200)), State::Released),
    ] {
        let (store, ask) = (&bench.store, ask_under(key, policy()));
        let (id, _) = uncertain(store, &ask).await;
        bench.advance(s(200)).await;
        let (looked, at) = (seen(store, &ask).await, store.now());
        assert_eq!(say(store, &ask, id, probed(&looked, at, first)).await.0.state, state);
        assert!(refused(&say(store, &ask, id, probed(&looked, at, second)).await, state));
    }
}

async fn a_late_answer_between_question_and_answer_counts_and_the_probe_does_not(bench: Bench) {
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let (id, fence) = uncertain(store, &ask).await;
    bench.advance(s(200)).await;
    let (looked, at) = (seen(store, &ask).await, store.now());
    // Also one that says no more than that nobody knows: the record is not as it was asked about.
    say(store, &ask, id, Event::Finish(fence, Finish::Uncertain(Reason::Status))).await;
    assert!(refused(&say(store, &ask, id, probed(&looked, at, Probed::Absent)).await, State::Uncertain));
    say(store, &ask, id, Event::Finish(fence, Finish::Terminal(terminal(201)))).await;
    assert!(refused(&say(store, &ask, id, probed(&looked, at, Probed::Absent)).await, State::Completed));
}

async fn one_of_many_takes_a_look_and_the_record_stays_as_it_was(bench: Bench) {
    let second = bench.second().await;
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let (id, fence) = uncertain(store, &ask).await;
    assert!(store.uncertain(None, 9).await.unwrap().list.is_empty(), "something may still be under way");
    let due = seen(store, &ask).await.settle_after.unwrap();
    assert_eq!(store.uncertain(None, 9).await.unwrap().next, Some(due));
    bench.advance(s(90)).await;
    let case = store.uncertain(None, 9).await.unwrap().list.remove(0);
    assert_eq!(
        (case.found.id, case.looks, case.actor.clone(), case.key.clone()),
        (id, 0, ask.actor.clone(), ask.key.clone())
    );
    let look = Look { id, revision: case.found.record.revision, looks: 0, next: store.now() + s(20) };
    let mut taken = 0;
    for asker in [store, &second, store, &second] {
        taken += usize::from(asker.take_look(look).await.unwrap());
    }
    assert_eq!(taken, 1);
    assert_eq!(seen(store, &ask).await, case.found.record, "who looked at it before may settle it");
    assert!(second.uncertain(None, 9).await.unwrap().list.is_empty());
    assert_eq!(second.uncertain(None, 9).await.unwrap().next, Some(store.now() + s(20)), "also if the look is lost");
    bench.advance(s(20)).await;
    assert_eq!(second.uncertain(None, 9).await.unwrap().list[0].looks, 1);
    // A write of the holder: the look is about another record now, and the count goes on.
    say(store, &ask, id, Event::Finish(fence, Finish::Uncertain(Reason::Status))).await;
    assert!(!store.take_look(Look { looks: 1, ..look }).await.unwrap());
    assert_eq!(store.uncertain(None, 9).await.unwrap().list[0].looks, 1);
    // Once it ran again, it is another uncertainty.
    let looked = seen(store, &ask).await;
    say(store, &ask, id, release(&looked, store.now())).await;
    uncertain(store, &Ask { holder: holder(2), ..ask.clone() }).await;
    bench.advance(s(90)).await;
    assert_eq!(store.uncertain(None, 9).await.unwrap().list[0].looks, 0);
}

async fn lists_go_on_where_they_ended_and_an_unreadable_record_holds_up_no_other(bench: Bench) {
    for number in 0..7 {
        uncertain(&bench.store, &ask_under(&format!("u{number}"), policy())).await;
        run(&bench.store, &ask_under(&format!("p{number}"), policy())).await;
        bench.advance(s(u64::from(number % 2 == 0))).await;
    }
    bench.sql("UPDATE idempotency_keys SET reason = 'a later word' WHERE id IN (3, 4)").await;
    bench.advance(s(200)).await;
    let (mut uncertain, mut lapsed) = (Vec::new(), Vec::new());
    for (list, silent) in [(&mut uncertain, false), (&mut lapsed, true)] {
        let mut after = None;
        loop {
            let cases = match silent {
                true => bench.store.lapsed(after, 2).await.unwrap(),
                false => bench.store.uncertain(after, 2).await.unwrap(),
            };
            list.extend(cases.list.iter().map(|case| case.found.id.0));
            after = cases.more;
            if after.is_none() {
                break;
            }
        }
    }
    assert_eq!((uncertain, lapsed), (vec![1, 5, 7, 9, 11, 13], vec![2, 6, 8, 10, 12, 14]));
}

async fn the_trail_says_who_settled_and_on_what_grounds(bench: Bench) {
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let (id, _) = uncertain(store, &ask).await;
    bench.advance(s(31 * 86_400)).await;
    let note = Note { who: None, why: Some("nobody settled it in time".into()) };
    store.apply_noted(id, Arc::clone(&ask.policy), Event::GiveUp, None, note).await.unwrap();
    let last = store.trail(id).await.unwrap().pop().unwrap();
    assert_eq!((last.state, last.reason, last.by.as_str()), (State::Failed, Some(Reason::GaveUp), "sweeper"));
    assert_eq!(last.why.as_deref(), Some("nobody settled it in time"));
}

super::cases! {
    an_operator_who_looked_before_the_holder_finished_settles_nothing,
    an_operator_who_looked_before_nothing_could_be_under_way_releases_nothing,
    a_stale_holder_changes_nothing_after_it_was_settled,
    a_holder_whose_record_was_released_may_still_finish_until_the_key_ran_again,
    of_two_probers_with_crossed_answers_the_first_one_counts,
    a_late_answer_between_question_and_answer_counts_and_the_probe_does_not,
    one_of_many_takes_a_look_and_the_record_stays_as_it_was,
    lists_go_on_where_they_ended_and_an_unreadable_record_holds_up_no_other,
    the_trail_says_who_settled_and_on_what_grounds,
}
