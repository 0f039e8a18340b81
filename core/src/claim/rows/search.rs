//! Searches the [`World`] for a broken promise: breadth first with every world visited once, and in random walks.

use std::collections::HashSet;

use super::world::{Assumption, Rules, Step, World, quick_policy};
use super::*;
use std::vec::Vec;

/// How many worlds each search visits: in seconds in a debug build, and in minutes in a release build.
const NEAR: usize = 3_000;
const DEEP: usize = 300_000;

fn rules(recovery: Recovery) -> Rules {
    Rules { policy: quick_policy().recovery(recovery), runs: 3, timed: true, backup: false, broken: None }
}

/// What a search saw.
#[derive(Debug)]
struct Seen {
    worlds: usize,
    broken: Option<(&'static str, Vec<Step>)>,
}

/// Visits worlds in the order of their distance from the first, until a promise breaks or enough were seen.
fn search(rules: &Rules, most_worlds: usize) -> Seen {
    let steps = World::steps(rules);
    let first = World::new(rules);
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
        for step in &steps {
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
            for (backup, timed) in [(false, true), (true, true), (true, false)] {
                let rules = rules(recovery);
                all.push(Rules { policy: rules.policy.journaled(journaled), backup, timed, ..rules });
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

#[test]
#[ignore = "half a minute, in release: eleven steps deep"]
fn the_search_finds_what_an_old_answer_breaks_after_a_restore() {
    let broken = Some(Assumption::AnswersDieInARestore);
    let rules = Rules { broken, backup: true, runs: 2, ..rules(Recovery::Manual) };
    let seen = search(&rules, 2_000_000);
    assert!(seen.broken.is_some(), "{} worlds", seen.worlds);
}

#[test]
fn the_search_finds_what_a_broken_assumption_breaks() {
    for (broken, recovery, backup) in [
        (Assumption::RetriesEnd, Recovery::Manual, true),
        (Assumption::EffectsEnd, Recovery::Probe, false),
        (Assumption::EffectsEnd, Recovery::Manual, false),
        (Assumption::OperatorsWait, Recovery::Manual, false),
        (Assumption::Truth, Recovery::Manual, false),
        (Assumption::NothingOutlivesARestore, Recovery::Probe, true),
        (Assumption::ForgottenIsForgotten, Recovery::Probe, true),
    ] {
        let timed = broken != Assumption::RetriesEnd;
        let rules = Rules { broken: Some(broken), backup, timed, runs: 2, ..rules(recovery) };
        let seen = search(&rules, 200_000);
        assert!(seen.broken.is_some(), "{broken:?} does not matter: {} worlds", seen.worlds);
    }
}
