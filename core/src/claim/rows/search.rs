//! Searches the [`World`] for a broken promise: breadth first with every world visited once, and in random walks.

use std::collections::HashSet;

use super::world::{Assumption, Rules, Says, Step, World, quick_policy};
use super::*;
use std::vec::Vec;

/// How many worlds each search visits: in seconds in a debug build, and in minutes in a release build.
const NEAR: usize = 3_000;
const NEAR_A_RESTORE: usize = 250;
const DEEP: usize = 300_000;

fn rules(recovery: Recovery) -> Rules {
    Rules { policy: quick_policy().recovery(recovery), runs: 3, key_ahead: Some(ms(0)), backup: false, broken: None }
}

/// What a search saw.
#[derive(Debug)]
struct Seen {
    worlds: usize,
    broken: Option<(&'static str, Vec<Step>)>,
}

/// Visits worlds in the order of their distance from the first, until a promise breaks or enough were seen.
fn search(rules: &Rules, most_worlds: usize) -> Seen {
    search_from(World::new(rules), &World::steps(rules), rules, most_worlds)
}

fn search_from(first: World, steps: &[Step], rules: &Rules, most_worlds: usize) -> Seen {
    let mut visited = HashSet::from([first.signature()]);
    // How each world was reached, to tell the whole story of a broken promise.
    let mut reached: Vec<(usize, Step)> = alloc::vec![(0, Step::Clock)];
    let mut queue = std::collections::VecDeque::from([(0, first)]);
    let story = |reached: &[(usize, Step)], mut at: usize, last: Step| {
        let mut story = alloc::vec![last];
        while at > 0 {
            story.push(reached[at].1);
            at = reached[at].0;
        }
        story.reverse();
        story
    };
    while let Some((from, world)) = queue.pop_front() {
        if visited.len() > most_worlds {
            return Seen { worlds: visited.len(), broken: None };
        }
        for step in steps {
            let mut next = world.clone();
            let broken = match next.take(*step, rules) {
                Ok(false) => continue,
                Ok(true) if !visited.insert(next.signature()) => continue,
                Ok(true) if next.ends_by_itself(rules) => None,
                Ok(true) => Some("stuck for ever"),
                Err(promise) => Some(promise),
            };
            if let Some(promise) = broken {
                let broken = Some((promise, story(&reached, from, *step)));
                return Seen { worlds: visited.len(), broken };
            }
            reached.push((from, *step));
            queue.push_back((reached.len() - 1, next));
        }
    }
    Seen { worlds: visited.len(), broken: None }
}

/// A linear congruential generator (Knuth's constants): the same walk for the same seed, for ever.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// One long life of a key; a broken promise is told with its seed and all steps that were taken.
fn walk(rules: &Rules, seed: u64, length: usize) {
    // Every other key is neither closed nor given up, so that it lives long enough for three runs.
    let patient = seed.is_multiple_of(2);
    let ends_early = |step: &Step| matches!(step, Step::Close { .. } | Step::GiveUp | Step::Operator { ends: true });
    let steps: Vec<_> = World::steps(rules).into_iter().filter(|step| !(patient && ends_early(step))).collect();
    let mut chance = Chance(seed);
    let mut world = World::new(rules);
    let mut story = Vec::new();
    for _ in 0..length {
        let step = steps[chance.below(steps.len())];
        let mut next = world.clone();
        match next.take(step, rules) {
            Ok(false) => continue,
            Ok(true) => {
                story.push(step);
                world = next;
            }
            Err(promise) => panic!("seed {seed}: {promise}\n{story:#?}\n{step:?}\n{world:#?}\n{rules:?}"),
        }
    }
    assert!(world.ends_by_itself(rules), "seed {seed}: stuck for ever\n{story:#?}\n{world:#?}");
}

/// Everything that an operation may choose and the core looks at.
fn every_rules() -> Vec<Rules> {
    let mut all = Vec::new();
    for recovery in [Recovery::Manual, Recovery::Probe, Recovery::Rerun] {
        for journaled in [false, true] {
            for (backup, key_ahead) in [(false, Some(ms(0))), (true, Some(ms(0))), (true, Some(ms(1))), (true, None)] {
                let rules = rules(recovery);
                all.push(Rules { policy: rules.policy.journaled(journaled), backup, key_ahead, ..rules });
            }
        }
    }
    all
}

fn keeps_every_promise(most_worlds: usize, runs: usize) {
    for rules in every_rules() {
        let rules = Rules { runs, ..rules };
        let seen = search(&rules, most_worlds);
        assert!(seen.broken.is_none(), "{:#?}\n{rules:?}", seen.broken);
    }
}

#[test]
fn every_promise_holds_in_every_world_near_the_first() {
    keeps_every_promise(NEAR, 3);
}

#[test]
#[ignore = "minutes, in release: a hundred times as many worlds"]
fn every_promise_holds_in_worlds_further_off() {
    keeps_every_promise(DEEP, 2);
    keeps_every_promise(DEEP, 3);
}

#[test]
fn every_promise_holds_on_long_walks() {
    for (number, rules) in every_rules().iter().enumerate() {
        for walk_number in 0..40 {
            walk(rules, number as u64 * 1_000 + walk_number, 500);
        }
    }
}

/// Lives of a key up to a restore, which loses all that happened since the backup.
fn every_restore(journaled: bool) -> Vec<Vec<Step>> {
    use Step::{Answer, Arrive, Backup, Clock, Close, Effect, NoAnswer, Restore, Start};
    let deliver = Step::Deliver { may_judge: true };
    let begin = |of| journaled.then_some(Step::BeginEffect(of));
    let nothing = Says::Released { wait: false };
    let known = |steps: &[Step]| -> Vec<Step> { steps.iter().copied().chain([Backup]).collect() };
    // A run that the backup does not know, still going on, or done and told.
    let lost_run = |of| [deliver, Start(of)].into_iter().chain(begin(of));
    let lost_end = |of| {
        lost_run(of)
            .chain([Effect(of)])
            .chain(journaled.then_some(Step::EndEffect(of)))
            .chain([Answer(of, Says::Success), Arrive(of)])
    };
    let released = known(&[deliver, Start(0), Answer(0, nothing), Arrive(0)]);
    // Its answer is on its way when the backup is made, and arrives again after the restore.
    let unknown = known(&[deliver, Start(0), NoAnswer(0), Answer(0, nothing)]);
    let mut all = alloc::vec![
        known(&[]).into_iter().chain(lost_run(0)).collect(),
        known(&[]).into_iter().chain(lost_end(0)).collect(),
        known(&[Clock]).into_iter().chain(lost_run(0)).collect(),
        known(&[deliver, Start(0)]).into_iter().chain(begin(0)).collect(),
        known(&[deliver, Start(0)]).into_iter().chain(begin(0)).chain([Effect(0)]).collect(),
        known(&[deliver, Start(0), NoAnswer(0)]),
        released.iter().copied().chain([Clock, Clock]).chain(lost_run(1)).collect(),
        released.iter().copied().chain(lost_end(1)).collect(),
        unknown.iter().copied().chain([Arrive(0), Clock, Clock]).chain(lost_run(1)).collect(),
        unknown.iter().copied().chain([Arrive(0)]).chain(lost_end(1)).collect(),
        known(&[Close { may_judge: true }]),
        known(&[Close { may_judge: true }, Clock, Clock, Clock, Step::Sweep]),
    ];
    for story in &mut all {
        story.push(Restore);
    }
    all
}

/// Fewer ways to say the same, so that the search sees further; the walks take them all.
fn matters_after_a_restore(step: &Step) -> bool {
    match step {
        Step::Deliver { may_judge } | Step::Close { may_judge } => *may_judge,
        Step::Answer(_, says) => matches!(says, Says::Released { wait: false } | Says::Success),
        Step::DeliverOtherPayload | Step::Renew(_) | Step::NoAnswer(_) | Step::Crash => false,
        _ => true,
    }
}

/// At every moment somebody delivers, looks, and settles as soon as that counts.
fn hurry(mut world: World, rules: &Rules) -> Option<(&'static str, World)> {
    let deliver = Step::Deliver { may_judge: true };
    let settle = [Step::Look, Step::Probe, Step::Look, Step::Operator { ends: false }];
    for _ in 0..9 {
        for step in [deliver].into_iter().chain(settle).chain([deliver, Step::Clock]) {
            let mut next = world.clone();
            match next.take(step, rules) {
                Ok(true) => world = next,
                Ok(false) => {}
                Err(promise) => return Some((promise, world)),
            }
        }
    }
    None
}

#[test]
fn every_promise_holds_after_a_restore() {
    for rules in every_rules().into_iter().filter(|rules| rules.backup) {
        let steps: Vec<_> = World::steps(&rules).into_iter().filter(matters_after_a_restore).collect();
        for story in every_restore(rules.policy.journaled) {
            let mut world = World::new(&rules);
            for step in &story {
                assert_eq!(world.take(*step, &rules), Ok(true), "{step:?} of {story:?}");
            }
            if let Some(broken) = hurry(world.clone(), &rules) {
                panic!("{story:#?}\n{broken:#?}\n{rules:?}");
            }
            let seen = search_from(world, &steps, &rules, NEAR_A_RESTORE);
            assert!(seen.broken.is_none(), "{story:#?}\n{:#?}\n{rules:?}", seen.broken);
        }
    }
}

#[test]
fn the_search_finds_what_a_broken_assumption_breaks() {
    for (broken, recovery, backup) in [
        (Assumption::RetriesEnd, Recovery::Manual, true),
        (Assumption::EffectsEnd, Recovery::Probe, false),
        (Assumption::EffectsEnd, Recovery::Manual, false),
        (Assumption::OperatorsWait, Recovery::Manual, false),
        (Assumption::Truth, Recovery::Manual, false),
        (Assumption::ClocksAgree, Recovery::Manual, true),
    ] {
        let key_ahead = match broken {
            Assumption::RetriesEnd => None,
            Assumption::ClocksAgree => Some(ms(2)),
            _ => Some(ms(0)),
        };
        let rules = Rules { broken: Some(broken), backup, key_ahead, runs: 2, ..rules(recovery) };
        let seen = search(&rules, 200_000);
        assert!(seen.broken.is_some(), "{broken:?} does not matter: {} worlds", seen.worlds);
    }
}
