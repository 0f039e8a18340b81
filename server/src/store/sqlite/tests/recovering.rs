//! What becomes of silent claims and unknown outcomes although nobody asks, driven by the clock's hands.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use samekey_core::claim::effects::{Call, CallEnd};
use samekey_core::claim::{Reason, Record, State};
use samekey_core::{Recovery, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::command::Answer;
use crate::probe::{About, Probe, Probed};
use crate::store::conformance::settling::{policy, uncertain};
use crate::store::{By, EffectStart, Look, Step};

type Said = Result<Probed, &'static str>;

/// A probe that says the same each time, and remembers when it was asked what.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(Timestamp, About)>>>);

impl Asked {
    fn probe(&self, clock: &Clock, said: impl Fn() -> Said + Send + Sync + 'static) -> Probe {
        let (asked, clock) = (Arc::clone(&self.0), clock.clone());
        Probe::new(move |about| {
            asked.lock().unwrap().push((clock.now(), about));
            let said = said();
            async move { said }
        })
    }

    fn times(&self) -> Vec<Timestamp> {
        self.0.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }
}

fn created() -> Said {
    Ok(Probed::Done(Answer::json(http::StatusCode::CREATED, "o7").result_id("o7")))
}

/// Knows the contract, and has this probe.
fn attend(store: &Store, policy: Policy, probe: Option<Probe>) {
    store.policies().add(policy);
    if let Some(probe) = probe {
        store.probe("orders.create", probe);
    }
}

async fn state(store: &Store, ask: &Ask) -> State {
    record(store, ask).await.state
}

async fn record(store: &Store, ask: &Ask) -> Record {
    store.find(ask).await.unwrap().unwrap().record
}

/// Time passes until this holds.
async fn in_time(bench: &Bench, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if holds().await {
            return;
        }
        bench.hands.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(8)).await;
    }
    panic!("it never came to hold");
}

/// Lets the keeper look a few times.
async fn a_while(bench: &Bench) {
    for _ in 0..3 {
        bench.hands.advance(Duration::from_millis(5_001));
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

async fn last_step(store: &Store, id: RecordId) -> Step {
    store.trail(id).await.unwrap().pop().unwrap()
}

#[tokio::test]
async fn what_a_probe_found_is_the_answer_of_every_retry() {
    let bench = Bench::attended().await;
    let (store, ask, asked) = (&bench.store, ask_under("k", policy()), Asked::default());
    attend(store, policy(), Some(asked.probe(&bench.clock, created)));
    let (id, fence) = run(store, &ask).await;
    let start = EffectStart {
        id,
        fence,
        name: "charge".into(),
        call: Call([1; 16]),
        input: None,
        provider_key: "p-charge".into(),
    };
    store.start_effect(start, Arc::clone(&ask.policy)).await.unwrap();
    let event = Event::Finish(fence, Finish::Uncertain(Reason::NoAnswer));
    store.apply(id, Arc::clone(&ask.policy), event, None).await.unwrap();
    let due = record(store, &ask).await.settle_after.unwrap();
    in_time(&bench, async || state(store, &ask).await == State::Completed).await;
    let told = store.peek(&Ask { holder: holder(2), ..ask.clone() }).await.unwrap().unwrap();
    assert_eq!((told.say, told.response.unwrap().body), (Say::Replay, Bytes::from_static(b"\"o7\"")));
    let found = told.found.unwrap().record;
    assert_eq!((found.status_code, found.result_id.as_deref(), found.fence.attempt), (Some(201), Some("o7"), 1));
    let (at, about) = asked.0.lock().unwrap().pop().unwrap();
    assert!(at >= due, "asked at {at:?}, due {due:?}");
    assert_eq!((about.key.expose(), about.actor.as_str(), about.operation.as_str()), ("k", "ann", "orders.create"));
    assert_eq!((about.attempt, about.reason), (1, Some(Reason::NoAnswer)));
    assert_eq!(about.provider_key, store.provider_key(&ask.actor, "orders.create", &ask.key, ""));
    assert_eq!((about.effects[0].name.as_str(), about.effects[0].provider_key.as_str()), ("charge", "p-charge"));
    let step = last_step(store, id).await;
    assert_eq!((step.by, step.state), (By::Probe, State::Completed));
    assert!(step.why.unwrap().contains("201"));
}

#[tokio::test]
async fn what_a_probe_does_not_find_may_run_again_unless_a_call_is_open() {
    let bench = Bench::attended().await;
    let store = &bench.store;
    attend(store, policy(), Some(Asked::default().probe(&bench.clock, || Ok(Probed::Absent))));
    let (clear, open) = (ask_under("clear", policy()), ask_under("open", policy()));
    let (id, _) = uncertain(store, &clear).await;
    let (held, fence) = run(store, &open).await;
    let start = EffectStart {
        id: held,
        fence,
        name: "charge".into(),
        call: Call([1; 16]),
        input: None,
        provider_key: "p".into(),
    };
    store.start_effect(start, Arc::clone(&open.policy)).await.unwrap();
    let event = Event::Finish(fence, Finish::Uncertain(Reason::NoAnswer));
    store.apply(held, Arc::clone(&open.policy), event, None).await.unwrap();
    in_time(&bench, async || state(store, &clear).await == State::Released).await;
    assert_eq!(last_step(store, id).await.by, By::Probe);
    a_while(&bench).await;
    assert_eq!(state(store, &open).await, State::Uncertain, "nobody knows what came of the call");
    assert_eq!(store.effects(held).await.unwrap()[0].end, None::<CallEnd>);
    let (_, again) = run(store, &Ask { holder: holder(2), ..clear.clone() }).await;
    assert_eq!(again.attempt, 2);
}

#[tokio::test]
async fn a_probe_that_cannot_say_settles_nothing_and_is_asked_less_and_less() {
    let bench = Bench::attended().await;
    let (store, ask, asked) = (&bench.store, ask_under("k", policy()), Asked::default());
    let round = AtomicUsize::new(0);
    let said = move || match round.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => Ok(Probed::Unclear("two orders under one key".into())),
        1 => Err("connection refused"),
        _ => panic!("a probe that panics"),
    };
    attend(store, policy(), Some(asked.probe(&bench.clock, said)));
    uncertain(store, &ask).await;
    in_time(&bench, async || asked.times().len() == 6).await;
    assert_eq!(state(store, &ask).await, State::Uncertain);
    let gaps: Vec<u64> = asked.times().windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    for (looks, gap) in gaps.iter().enumerate() {
        let whole = 5 << looks;
        // The time that a question may take, the pause, and what lies between two looks of the keeper.
        assert!(*gap >= 5 + whole / 2, "{gaps:?}");
    }
    assert!(gaps[4] > gaps[0], "{gaps:?}");
}

#[tokio::test]
async fn a_probe_that_never_answers_is_given_up_in_its_time_and_keeps_nobody_waiting() {
    let bench = Bench::attended().await;
    let store = &bench.store;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let silent = Probe::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Said>()
    });
    attend(store, policy(), Some(silent.timeout(Duration::from_millis(300))));
    let other = Policy::new("orders.pay").recovery(Recovery::Probe);
    store.policies().add(other.clone());
    store.probe("orders.pay", Asked::default().probe(&bench.clock, created));
    for number in 0..20 {
        uncertain(store, &ask_under(&format!("k{number}"), policy())).await;
    }
    let pay = Ask { also: Vec::new(), ..ask_under("k", other) };
    uncertain(store, &pay).await;
    bench.hands.advance(s(100));
    until(async || asked.load(Ordering::Relaxed) > 0).await;
    until(async || state(store, &pay).await == State::Completed).await;
    assert!(asked.load(Ordering::Relaxed) <= 4, "a service in trouble is not asked about all at once");
    in_time(&bench, async || asked.load(Ordering::Relaxed) >= 24).await;
    assert_eq!(state(store, &ask_under("k0", policy())).await, State::Uncertain);
}

#[tokio::test]
async fn of_two_processes_one_asks() {
    let bench = Bench::attended().await;
    let second = bench.second().await;
    let (ask, asked) = (ask_under("k", policy()), Asked::default());
    for store in [&bench.store, &second] {
        attend(store, policy(), Some(asked.probe(&bench.clock, || Err("no"))));
    }
    for number in 0..8 {
        uncertain(&bench.store, &ask_under(&format!("k{number}"), policy())).await;
    }
    uncertain(&bench.store, &ask).await;
    bench.hands.advance(s(90));
    until(async || {
        bench.hands.advance(Duration::from_millis(10));
        asked.times().len() >= 9
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(asked.times().len(), 9, "each record once");
}

#[tokio::test]
async fn a_look_that_was_lost_with_its_process_is_taken_again_later() {
    let bench = Bench::attended().await;
    let (store, ask, asked) = (&bench.store, ask_under("k", policy()), Asked::default());
    let (id, _) = uncertain(store, &ask).await;
    bench.hands.advance(s(90));
    let seen = record(store, &ask).await;
    let next = store.now() + s(30);
    assert!(store.take_look(Look { id, revision: seen.revision, looks: 0, next }).await.unwrap());
    attend(store, policy(), Some(asked.probe(&bench.clock, created)));
    in_time(&bench, async || state(store, &ask).await == State::Completed).await;
    assert!(asked.times()[0] >= next, "{:?}, not before {next:?}", asked.times());
}

#[tokio::test]
async fn a_late_answer_while_the_probe_is_asked_stays_the_answer() {
    let bench = Bench::attended().await;
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let (asked, mut questions) = mpsc::unbounded_channel::<oneshot::Sender<Probed>>();
    attend(
        store,
        policy(),
        Some(Probe::new(move |_| {
            let (says, said) = oneshot::channel();
            asked.send(says).unwrap();
            said
        })),
    );
    let (id, fence) = uncertain(store, &ask).await;
    bench.hands.advance(s(100));
    let question = questions.recv().await.unwrap();
    finish(store, &ask, id, fence).await;
    question.send(Probed::Absent).unwrap();
    a_while(&bench).await;
    let now = record(store, &ask).await;
    assert_eq!((now.state, now.status_code), (State::Completed, Some(201)));
}

#[tokio::test]
async fn without_a_probe_it_stays_uncertain_until_it_is_given_up() {
    let bench = Bench::attended().await;
    let store = &bench.store;
    for (key, recovery) in [("manual", Recovery::Manual), ("rerun", Recovery::Rerun), ("missing", Recovery::Probe)] {
        let policy = Policy::new(key).recovery(recovery).give_up(s(60));
        store.policies().add(policy.clone());
        let ask = ask_under(key, policy);
        let (id, _) = uncertain(store, &ask).await;
        let due = record(store, &ask).await.settle_after.unwrap() + s(60);
        a_while(&bench).await;
        assert_eq!(state(store, &ask).await, State::Uncertain, "{key}");
        in_time(&bench, async || state(store, &ask).await == State::Failed).await;
        let record = record(store, &ask).await;
        assert!(record.finished_at.unwrap() >= due, "{key}");
        assert!(record.effect_unknown(), "{key}");
        assert_eq!((record.reason, last_step(store, id).await.by), (Some(Reason::GaveUp), By::Sweeper));
    }
}

#[tokio::test]
async fn after_max_age_only_an_operator_settles() {
    let bench = Bench::attended().await;
    let (store, ask, asked) = (&bench.store, ask_under("k", policy()), Asked::default());
    uncertain(store, &ask).await;
    bench.hands.advance(s(90 + 3600));
    attend(store, policy(), Some(asked.probe(&bench.clock, created).max_age(s(3600))));
    a_while(&bench).await;
    assert_eq!((state(store, &ask).await, asked.times().len()), (State::Uncertain, 0));
}

#[tokio::test]
async fn the_contract_of_today_holds_for_old_records_and_unknown_ones_are_left_alone() {
    let bench = Bench::attended().await;
    let (store, asked) = (&bench.store, Asked::default());
    let manual = Policy::new("orders.create");
    attend(store, manual.clone(), Some(asked.probe(&bench.clock, created)));
    let (ask, foreign) = (ask_under("k", manual), ask_under("k", Policy::new("orders.other")));
    uncertain(store, &ask).await;
    let foreign = Ask { also: Vec::new(), ..foreign };
    uncertain(store, &foreign).await;
    let silent = Ask { also: Vec::new(), ..ask_under("silent", Policy::new("orders.other")) };
    run(store, &silent).await;
    bench.hands.advance(s(100));
    a_while(&bench).await;
    assert_eq!((state(store, &ask).await, asked.times().len()), (State::Uncertain, 0));
    store.policies().replace(|policies| policies.add(policy()));
    in_time(&bench, async || state(store, &ask).await == State::Completed).await;
    bench.hands.advance(s(40 * 86_400));
    a_while(&bench).await;
    assert_eq!(state(store, &foreign).await, State::Uncertain);
    assert_eq!(state(store, &silent).await, State::InProgress);
}

#[tokio::test]
async fn silent_claims_are_judged_by_a_process_that_may_judge() {
    let bench = Bench::attended().await;
    let journaled = Policy::new("orders.ship").journaled(true);
    let (plain, clear, called) = (
        ask_under("plain", policy()),
        Ask { also: Vec::new(), ..ask_under("clear", journaled.clone()) },
        Ask { also: Vec::new(), ..ask_under("called", journaled.clone()) },
    );
    let store = &bench.store;
    for ask in [&plain, &clear, &called] {
        let (id, fence) = run(store, ask).await;
        if ask.key == called.key {
            let start = EffectStart {
                id,
                fence,
                name: "ship".into(),
                call: Call([1; 16]),
                input: None,
                provider_key: "p".into(),
            };
            store.start_effect(start, Arc::clone(&ask.policy)).await.unwrap();
        }
    }
    // Another process, which starts when the leases are over: it does not know whether the holders could renew.
    bench.hands.advance(s(29));
    let late = bench.second().await;
    late.policies().add(policy());
    late.policies().add(journaled.clone());
    bench.hands.advance(s(2));
    tokio::time::sleep(Duration::from_millis(60)).await;
    bench.hands.advance(s(20));
    tokio::time::sleep(Duration::from_millis(60)).await;
    for ask in [&plain, &clear, &called] {
        assert_eq!(state(&late, ask).await, State::InProgress);
    }
    in_time(&bench, async || state(&late, &clear).await == State::Released).await;
    in_time(&bench, async || state(&late, &plain).await == State::Uncertain).await;
    in_time(&bench, async || state(&late, &called).await == State::Uncertain).await;
    assert_eq!(record(&late, &plain).await.reason, Some(Reason::Lapse));
    let released = late.find(&clear).await.unwrap().unwrap();
    assert_eq!(last_step(&late, released.id).await.by, By::Lease);
    assert_eq!(run(&late, &Ask { holder: holder(2), ..clear.clone() }).await.1.attempt, 2);
}

#[tokio::test]
async fn nobody_is_asked_while_the_clock_was_set() {
    let bench = Bench::attended().await;
    let (store, ask, asked) = (&bench.store, ask_under("k", policy()), Asked::default());
    attend(store, policy(), Some(asked.probe(&bench.clock, || Ok(Probed::Absent))));
    uncertain(store, &ask).await;
    a_while(&bench).await;
    // By the wall clock nothing can be under way any more; by the other one it has hardly begun.
    bench.hands.set_wall(bench.clock.now() + s(3600));
    let stepped = bench.clock.monotonic();
    a_while(&bench).await;
    assert_eq!((state(store, &ask).await, asked.times().len()), (State::Uncertain, 0));
    in_time(&bench, async || state(store, &ask).await == State::Released).await;
    let span = ask.policy.timeout + ask.policy.probe_after();
    assert!(bench.clock.monotonic() >= stepped + span, "not before all that was claimed before is over");
}

#[tokio::test]
async fn what_a_backup_made_uncertain_is_settled_the_same_way() {
    let bench = Bench::attended().await;
    let (store, ask, asked) = (&bench.store, ask_under("k", policy()), Asked::default());
    attend(store, policy(), Some(asked.probe(&bench.clock, created)));
    let (id, fence) = run(store, &ask).await;
    store.apply(id, Arc::clone(&ask.policy), Event::Horizon, None).await.unwrap();
    assert_eq!(record(store, &ask).await.reason, Some(Reason::Restore));
    let due = record(store, &ask).await.settle_after.unwrap();
    let late = finish(store, &ask, id, fence).await;
    assert!(late.refused.is_some(), "an attempt that the backup knew says nothing of a later one");
    in_time(&bench, async || state(store, &ask).await == State::Completed).await;
    assert!(asked.times()[0] >= due);
}

#[tokio::test]
async fn a_store_that_closes_waits_for_no_question() {
    let bench = Bench::attended().await;
    let (store, ask) = (&bench.store, ask_under("k", policy()));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let silent = Probe::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Said>()
    });
    attend(store, policy(), Some(silent.timeout(s(3600))));
    uncertain(store, &ask).await;
    bench.hands.advance(s(100));
    until(async || asked.load(Ordering::Relaxed) == 1).await;
    tokio::time::timeout(s(5), store.close()).await.expect("closed");
    let again = bench.second().await;
    assert_eq!(state(&again, &ask).await, State::Uncertain);
    assert!(again.uncertain(None, 9).await.unwrap().next.is_some(), "the next look is due some time");
}
