//! The criterion of readiness: many intents, each delivered several times in any order, through a network that loses
//! requests and answers, by a server that is killed and started meanwhile, to a service that does what services do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::patience::patiently;
use support::relay::{Loss, Relay};
use support::{Answer, Request, keys};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::operator::Operator;
use super::shop::{Fate, Shop};
use super::{intent, through};

const INTENTS: usize = 200;
const MOST_DELIVERIES: usize = 5;
/// Under way at once.
const CALLERS: usize = 16;
/// After so many deliveries the server is killed, and started again.
const KILL_EVERY: usize = 90;

/// SplitMix64: a seed that is printed makes the same storm again, as far as the system's scheduler lets it.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    /// Another one, for somebody else.
    fn other(&mut self) -> Self {
        Self(self.throw(usize::MAX) as u64)
    }

    fn fate(&mut self) -> Fate {
        match self.throw(100) {
            0..=54 => Fate::Slow(Duration::from_millis(self.throw(20) as u64)),
            55..=59 => Fate::Slow(Duration::from_millis(700)),
            60..=72 => Fate::Lost,
            73..=77 => Fate::Silent,
            78..=84 => Fate::TurnedDown,
            85..=90 => Fate::Busy,
            _ => Fate::Dead,
        }
    }

    fn loss(&mut self) -> Loss {
        match self.throw(10) {
            0 => Loss::Request(0),
            // Less than the shortest request.
            1 => Loss::Request(self.throw(150)),
            2 => Loss::Reset,
            3 => Loss::Cut(self.throw(300)),
            _ => Loss::None,
        }
    }
}

/// One thing that somebody wants done once.
#[derive(Clone, Debug)]
struct Intent {
    key: String,
    operation: &'static str,
    request: Request,
}

fn intents() -> Vec<Intent> {
    let both = [("orders.create", "/orders"), ("parcels.send", "/parcels")];
    let of = |n: usize| {
        let (operation, path) = both[n % 2];
        let key = keys::v7();
        Intent { request: intent(path, &key), key, operation }
    };
    (0..INTENTS).map(of).collect()
}

/// What callers were told, as far as it reached them.
#[derive(Default)]
struct Heard {
    /// By key: the answer that ended it. There may be one only.
    ends: BTreeMap<String, (u16, Vec<u8>)>,
    answers: usize,
}

impl Heard {
    fn note(&mut self, key: &str, answer: &Answer) {
        self.answers += 1;
        if names_the_next_step(answer) {
            return;
        }
        let told = (answer.status, answer.body.clone());
        let before = self.ends.entry(key.to_owned()).or_insert_with(|| told.clone());
        assert_eq!(before, &told, "{key}: every later answer is the first one");
    }
}

/// True for everything but an end; panics on an answer that leaves its caller alone.
fn names_the_next_step(answer: &Answer) -> bool {
    let state = answer.receipt().state;
    match answer.status {
        201 | 422 => {
            assert_eq!(state, if answer.status == 201 { "completed" } else { "failed" });
            false
        }
        // The service's own: come again.
        503 if answer.json()["error"] == "busy" => {
            assert!(answer.retry_after().is_some() && state == "released", "{answer:?}");
            true
        }
        _ => {
            let next = answer.problem().next;
            assert!(["wait", "retry_same_key", "follow_status"].contains(&next.as_str()), "{next} in {answer:?}");
            true
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[expect(clippy::print_stderr, reason = "whoever sees it fail wants the seed")]
async fn a_storm_leaves_one_effect_for_each_intent_that_is_told_done() {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).expect("random bytes");
    let seed = std::env::var("SAMEKEY_STORM_SEED").map_or(u64::from_ne_bytes(seed), |text| text.parse().expect("u64"));
    eprintln!("SAMEKEY_STORM_SEED={seed}");
    let mut dice = Dice(seed);

    let shop = Arc::new(Shop::open().await);
    let mut fates = dice.other();
    shop.fates(move || fates.fate());
    let mut samekey = shop.serve().start().await;
    let addr = samekey.addr;
    let network = Arc::new(Relay::before(addr).await);
    let heard = Arc::<Mutex<Heard>>::default();

    // Each intent 1 to 5 times, all of it shuffled.
    let intents = intents();
    let mut deliveries = Vec::new();
    for intent in &intents {
        deliveries.extend((0..=dice.throw(MOST_DELIVERIES)).map(|_| intent.clone()));
    }
    for at in (1..deliveries.len()).rev() {
        deliveries.swap(at, dice.throw(at + 1));
    }
    let kills = deliveries.len() / KILL_EVERY;
    assert!(kills >= 3, "{} deliveries", deliveries.len());
    network.plan(&deliveries.iter().map(|_| dice.loss()).collect::<Vec<_>>());

    let seats = Arc::new(Semaphore::new(CALLERS));
    let mut callers = JoinSet::new();
    for (number, intent) in deliveries.into_iter().enumerate() {
        let seat = patiently("a free caller", Arc::clone(&seats).acquire_owned()).await.expect("a seat");
        let (network, heard) = (Arc::clone(&network), Arc::clone(&heard));
        callers.spawn(async move {
            let _seat = seat;
            if let Ok(answer) = through(&network, &intent.request).await
                && answer.whole
            {
                heard.lock().expect("what was heard").note(&intent.key, &answer);
            }
        });
        if (number + 1) % KILL_EVERY == 0 {
            samekey = samekey.kill().await.start_on(&addr.to_string()).await;
        }
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("a caller whose every answer made sense");
    }

    // The weather clears up, and every caller comes again for as long as it is told to. Beside them somebody looks
    // after the parcels that nobody knows of.
    shop.fate(Fate::Answered);
    let person = Arc::new(Operator::of(&samekey));
    let mut ends = JoinSet::new();
    for intent in intents.clone() {
        let (heard, person, shop) = (Arc::clone(&heard), Arc::clone(&person), Arc::clone(&shop));
        ends.spawn(async move {
            let last = patiently("an end", async {
                loop {
                    let answer = support::raw::send(addr, &intent.request).await;
                    heard.lock().expect("what was heard").note(&intent.key, &answer);
                    if !names_the_next_step(&answer) {
                        break answer;
                    }
                    let by_hand = intent.operation == "parcels.send" && answer.receipt().state == "uncertain";
                    if by_hand {
                        let seen = person.looks_at(&intent.key).await;
                        let made = shop.made(&intent.key);
                        // Whoever was faster settled it by what he found, and the next delivery tells.
                        let _ = person.settles(&seen, made.first().map(String::as_str)).await;
                    } else {
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
            })
            .await;
            (intent.key, last)
        });
    }
    let mut done = 0;
    while let Some(ended) = ends.join_next().await {
        let (key, last) = ended.expect("an end for each intent");
        let made = shop.made(&key);
        match last.status {
            201 => assert_eq!(made, [last.json()["id"].as_str().expect("an id")], "{key} was told done"),
            status => assert_eq!((status, made.len()), (422, 0), "{key} was told that nothing came of it"),
        }
        done += usize::from(last.status == 201);
    }
    let heard = heard.lock().expect("what was heard");
    assert_eq!(heard.ends.len(), intents.len());
    assert!(done > INTENTS / 2, "{done} of {INTENTS} were done");
    eprintln!("{done} of {INTENTS} done, the others turned down; {kills} kills, {} answers heard", heard.answers);
}
