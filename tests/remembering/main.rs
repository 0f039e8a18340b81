//! What becomes of keys when the memory of them ends: every mixture of wrong clocks, long queues, sweeps, restarts and
//! restored backups, over the real SQLite store.
//!
//! Time is a clock that the test moves. One store lives through one [`Weather`], with keys of every age and many
//! deliveries of each; what is checked is two sentences:
//!
//! * A key that carries its time never runs twice.
//! * The first delivery of a key whose time lies within `remember`, and after the horizon, is never refused.

mod caller;
mod server;
mod weather;

use std::collections::BTreeMap;
use std::time::Duration;

use caller::{Caller, callers};
use samekey_core::claim::Say;
use samekey_core::problem::Code;
use server::Server;
use weather::{Happening, Weather, weathers};

const DAY: Duration = Duration::from_secs(86_400);
const fn days(days: u64) -> Duration {
    DAY.saturating_mul(days as u32)
}

/// The defaults of every contract.
const REMEMBER: Duration = days(30);
const RETRY_BUDGET: Duration = days(5);
const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// What a store believes to have passed while nobody measured, though a wrong clock says so.
const UNSEEN: Duration = DAY;

#[tokio::test(flavor = "multi_thread")]
async fn no_key_runs_twice_and_no_young_one_is_refused() {
    let all = weathers();
    let mut seen = Seen::default();
    for weather in all.iter().filter(|weather| !weather.is_restored()) {
        live_through(weather, &mut seen).await;
    }
    seen.must_have("ran", "expired", "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lost_key_runs_again_after_a_backup_was_restored() {
    let all = weathers();
    let mut seen = Seen::default();
    for weather in all.iter().filter(|weather| weather.is_restored()) {
        live_through(weather, &mut seen).await;
    }
    seen.must_have("ran", "uncertain", "done");
}

/// How often each answer came: a grid in which nothing is ever refused shows nothing.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    fn note(&mut self, say: &Say) {
        let name = match say {
            Say::Run(_) => "ran",
            Say::Refuse(Code::KeyExpired) => "expired",
            Say::Refuse(Code::OutcomeUncertain) => "uncertain",
            Say::Replay | Say::Refuse(Code::ResponseNotStored) => "done",
            other => panic!("{other:?} is no answer of this grid"),
        };
        *self.0.entry(name).or_default() += 1;
    }

    #[expect(clippy::print_stderr, reason = "how much was looked at")]
    fn must_have(&self, one: &str, two: &str, three: &str) {
        eprintln!("remembering: {:?}", self.0);
        for name in [one, two, three] {
            assert!(self.0.get(name).is_some_and(|times| *times > 100), "{name} in {:?}", self.0);
        }
    }
}

/// One store from its creation to the last delivery.
async fn live_through(weather: &Weather, seen: &mut Seen) {
    let mut server = Server::start(weather.skips_time()).await;
    let mut callers = callers();
    // By when; what happens at one moment happens in this order.
    let mut plan: Vec<(Duration, Happening)> = weather.happenings();
    for (number, caller) in callers.iter().enumerate() {
        plan.extend(caller.deliveries().map(|at| (at, Happening::Delivery(number))));
    }
    plan.sort_by_key(|(at, happening)| (*at, happening.order()));
    for (at, happening) in plan {
        server.until(at).await;
        match happening {
            Happening::Delivery(number) => {
                let caller = &mut callers[number];
                let say = server.deliver(caller).await;
                seen.note(&say);
                judge(weather, &server, caller, say);
            }
            Happening::Traffic => server.traffic().await,
            Happening::Sweep => server.sweep().await,
            Happening::Step(wrong) => server.step(wrong),
            Happening::Restart(down) => server.restart(down).await,
            Happening::Backup => server.backup().await,
            Happening::Restore => server.restore().await,
        }
    }
    server.stop().await;
}

/// The two sentences. The truth here is the test's own: no clock of server or client enters it.
fn judge(weather: &Weather, server: &Server, caller: &mut Caller, say: Say) {
    let told = format!("{caller:?} heard {say:?} on day {:.1} of {weather:?}", server.day());
    let first = caller.first.is_none();
    let now = server.now();
    caller.first.get_or_insert(now);
    if matches!(say, Say::Run(_)) {
        caller.runs.push(now);
        if caller.carries_its_time() {
            assert_eq!(caller.runs.len(), 1, "a second run: {told}");
        } else if let [.., before, _] = caller.runs[..] {
            // New again once forgotten; what a backup lost is uncertain for as long as a client retries.
            let kept = if server.lost_since(before) { RETRY_BUDGET } else { REMEMBER - weather.wrong_by() };
            assert!(now >= before + kept, "a second run too early: {told}");
        }
        return;
    }
    if !first || !caller.carries_its_time() || weather.is_wrong_at(server.elapsed()) && caller.is_ahead() {
        return;
    }
    let unseen = if weather.restarts_while_wrong() { UNSEEN } else { Duration::ZERO };
    let is_young = caller.time + REMEMBER > now + unseen;
    let after_the_horizon = server.horizon().is_none_or(|horizon| caller.time > horizon + CLOCK_SKEW);
    assert!(!(is_young && after_the_horizon), "a first delivery was refused: {told}");
}
