//! How a command ends whose process died at one point: what the retry hears, what was called, what was made.

use std::time::Duration;

use samekey::{Reason, Recovery, State};
use support::patience::patiently;
use support::{Answer, Request};

use crate::provider::Behaviour;
use crate::scene::{Person, Program, Scene, order};

/// What brings the retry its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The answer was stored.
    Replayed,
    /// The retry runs, as this attempt.
    Runs(u32),
    /// Nobody knows at first; samekey asks, and stores what it is told.
    Probed,
    /// Nobody knows, for this reason, until a person says so.
    ByHand(Reason),
}

/// A point, its end for each way to recover, and how often charge and ship were called in all.
pub(crate) type Row = (&'static str, [End; 3], [usize; 2]);

pub(crate) const RECOVERIES: [Recovery; 3] = [Recovery::Manual, Recovery::Probe, Recovery::Rerun];

/// A command for each row whose process dies at that point; then a process that lives, and the ends.
pub(crate) async fn play(behaviour: Behaviour, rows: &[Row], recovery: Recovery) {
    let scene = Scene::set(recovery).await;
    let key = |point: &str| point.replace(' ', "-");
    for (point, ..) in rows {
        scene.provider.behaves(behaviour.clone());
        let program = scene.start().await;
        die(&scene, program, &behaviour, point, &key(point)).await;
    }
    scene.provider.behaves(Behaviour::Honest);
    let away = matches!(behaviour, Behaviour::CrashesAfterCharge | Behaviour::CrashesAfterParcel);
    if away {
        scene.provider.upstream.refuse().await;
    }
    let (program, person) = (scene.start().await, scene.person().await);
    if away {
        for (point, ..) in rows {
            person.looks_late(&key(point)).await;
        }
        // It was asked in vain by now, or will be at once.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        scene.provider.upstream.accept();
    }
    // What settles by itself comes first: what does not has then been looked at as well.
    let of = |(_, ends, _): &&Row| ends[RECOVERIES.iter().position(|of| *of == recovery).expect("a way to recover")];
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| matches!(of(row), End::ByHand(_)));
    for row in rows {
        let (point, _, calls) = row;
        let about = format!("{behaviour:?}, killed at {point:?}, {recovery:?}, {:?}", of(&row));
        let answer = end(&program, &person, &key(point), of(&row), &about).await;
        let made = |kind| scene.provider.made(kind, &key(point));
        let (charge, parcel) = (made("charge"), made("ship"));
        assert_eq!((charge.len(), parcel.len()), (1, 1), "one charge and one parcel: {about}");
        let told = answer.json();
        assert_eq!(
            (&told["charge"], &told["parcel"]),
            (&charge[0].clone().into(), &parcel[0].clone().into()),
            "{about}"
        );
        let asked = ["charge", "ship"].map(|kind| scene.provider.calls(kind, &key(point)));
        assert_eq!(asked, *calls, "calls of charge and ship: {about}");
        let again = program.send(&order(&key(point))).await.expect("an answer");
        assert!(again.replayed() && again.status == 201 && again.body == answer.body, "{about}: {again:?}");
    }
    person.leaves().await;
    program.kill().await;
}

async fn die(scene: &Scene, program: Program, behaviour: &Behaviour, point: &str, key: &str) {
    match (point, behaviour) {
        ("answer sent", _) => {
            program.send(&order(key)).await.expect("an answer");
            program.kill().await;
        }
        // The provider has it and says nothing: nothing in the program marks this moment.
        ("call under way", Behaviour::Withholds(kind, _)) => {
            let lost = program.spawn(&order(key));
            scene.provider.called(kind, key).await;
            program.kill().await;
            assert!(lost.await.expect("a caller").is_none(), "nobody heard anything");
        }
        _ => {
            let heard = program.send(&order(key).header(crate::program::KILL_AT, point)).await;
            assert!(heard.is_none(), "{point} was passed: {heard:?}");
            program.killed().await;
        }
    }
}

async fn end(program: &Program, person: &Person<'_>, key: &str, end: End, about: &str) -> Answer {
    match end {
        End::Replayed => {
            let answer = program.send(&order(key)).await.expect("an answer");
            assert!(answer.replayed() && answer.status == 201, "{about}: {answer:?}");
            answer
        }
        End::Runs(attempt) => {
            let answer = until_done(program, key, about).await;
            assert!(!answer.replayed(), "{about}: {answer:?}");
            assert_eq!(answer.receipt().attempt, Some(attempt), "{about}: {answer:?}");
            answer
        }
        End::Probed => {
            let answer = until_done(program, key, about).await;
            assert!(answer.replayed() && answer.receipt().attempt == Some(1), "{about}: {answer:?}");
            answer
        }
        End::ByHand(reason) => {
            let seen = person.looks_late(key).await;
            assert_eq!((seen.state, seen.reason), (State::Uncertain, Some(reason)), "{about}");
            let refused = program.send(&order(key)).await.expect("an answer");
            refused.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
            person.settles(key).await;
            until_done(program, key, about).await
        }
    }
}

/// Comes again for as long as it is told to, and is told nothing else meanwhile.
async fn until_done(program: &Program, key: &str, about: &str) -> Answer {
    let retry: Request = order(key);
    patiently(about, async {
        loop {
            let answer = program.send(&retry).await.expect("an answer");
            if answer.status == 201 {
                return answer;
            }
            let code = answer.problem().code;
            // Whoever waited for a claim that was released then is told to come again.
            let expected = ["operation_in_progress", "outcome_uncertain", "operation_released"];
            assert!(expected.contains(&code.as_str()), "{about}: {code}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
}
