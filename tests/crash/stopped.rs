//! A process that is stopped for longer than its lease and `probe_after`, while another one goes on with its command.

use rustix::process::Signal;
use samekey::{Recovery, State};
use support::Answer;

use crate::program::STOP_AT;
use crate::scene::{Scene, order};

/// How the command ended in the other process; or, where its own time was over before it looked, just that.
fn ended_elsewhere(heard: &Answer, ran: &Answer) -> bool {
    (heard.replayed() && heard.body == ran.body) || heard.status == 504
}

/// Stopped between claim and effect: the start of its effect is refused, so nothing is called a second time.
#[tokio::test]
async fn stopped_before_its_first_effect_it_calls_nothing() {
    let scene = Scene::set(Recovery::Manual).await;
    let (slow, other, person) = (scene.start().await, scene.start().await, scene.person().await);
    let late = slow.spawn(&order("k").header(STOP_AT, "claimed"));
    slow.stopped().await;
    let released = person.judged("k").await.expect("a record");
    assert_eq!(released.state, State::Released, "nothing stood in the journal");
    let ran = other.send(&order("k")).await.expect("an answer");
    ran.ran(201, "completed", 2);
    tokio::time::sleep(crate::program::LEASE + crate::program::PROBE_AFTER).await;
    slow.signal(Signal::CONT);
    let heard = late.await.expect("a caller").expect("an answer");
    assert!(ended_elsewhere(&heard, &ran), "{heard:?}");
    assert_eq!(["charge", "ship"].map(|kind| scene.provider.calls(kind, "k")), [1, 1]);
    person.leaves().await;
}

/// Stopped between its two effects: the first one stands, the start of the second one is refused.
#[tokio::test]
async fn stopped_between_its_effects_it_calls_no_other() {
    let scene = Scene::set(Recovery::Rerun).await;
    let (slow, other, person) = (scene.start().await, scene.start().await, scene.person().await);
    let late = slow.spawn(&order("k").header(STOP_AT, "charge ended"));
    slow.stopped().await;
    let uncertain = person.looks_late("k").await;
    assert_eq!(uncertain.state, State::Uncertain);
    let ran = other.send(&order("k")).await.expect("an answer");
    ran.ran(201, "completed", 2);
    slow.signal(Signal::CONT);
    let heard = late.await.expect("a caller").expect("an answer");
    assert!(ended_elsewhere(&heard, &ran), "{heard:?}");
    assert_eq!(["charge", "ship"].map(|kind| scene.provider.calls(kind, "k")), [1, 1]);
    person.leaves().await;
}

/// Stopped when its call was noted and not yet made: no journal can call that back. What it hands down bounds it: the
/// provider is called twice under one key of its own, and charges once.
#[tokio::test]
async fn stopped_within_its_call_it_is_fenced_by_the_providers_key() {
    let scene = Scene::set(Recovery::Manual).await;
    let (slow, other, person) = (scene.start().await, scene.start().await, scene.person().await);
    let late = slow.spawn(&order("k").header(STOP_AT, "charge noted"));
    slow.stopped().await;
    person.settles("k").await;
    let ran = other.send(&order("k")).await.expect("an answer");
    ran.ran(201, "completed", 2);
    slow.signal(Signal::CONT);
    let heard = late.await.expect("a caller").expect("an answer");
    assert!(ended_elsewhere(&heard, &ran) || heard.status == 409, "{heard:?}");
    assert!(scene.provider.calls("charge", "k") <= 2);
    assert_eq!(["charge", "ship"].map(|kind| scene.provider.made(kind, "k").len()), [1, 1]);
    assert_eq!(scene.provider.calls("ship", "k"), 1, "it goes no further");
    person.leaves().await;
}
