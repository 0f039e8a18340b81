//! Four servers, many clients, servers that are killed, a database that crashes: one effect for each intent, and every
//! replay the same bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::{Answer, Request, Serve, Server, Upstream, raw};
use tokio::task::JoinSet;

use crate::servers::{serve, server};

const SERVERS: usize = 4;

struct Size {
    intents: usize,
    clients: usize,
    kills: usize,
    crashes: usize,
}

/// As `cargo xtask campaign` sets it.
fn size() -> Size {
    let number = |name: &str, short: usize| std::env::var(name).map_or(short, |text| text.parse().expect("a number"));
    Size {
        intents: number("SAMEKEY_CAMPAIGN_INTENTS", 250),
        clients: number("SAMEKEY_CAMPAIGN_CLIENTS", 40),
        kills: number("SAMEKEY_CAMPAIGN_KILLS", 3),
        crashes: number("SAMEKEY_CAMPAIGN_CRASHES", 1),
    }
}

/// A small generator of its own, so that a run can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

type Addresses = Arc<Mutex<Vec<std::net::SocketAddr>>>;

/// What an intent's deliveries heard that was final.
type Heard = Arc<Mutex<HashMap<usize, Vec<Answer>>>>;

/// Delivers one intent until something final is heard, or it is known to be unknown.
async fn deliver(intent: usize, mut dice: Dice, servers: Addresses, heard: Heard, uncertain: Arc<AtomicUsize>) {
    let request = Request::order(&format!("intent-{intent}")).actor(&format!("Bearer actor-{}", intent % 17));
    let until = Instant::now() + Duration::from_secs(90);
    while Instant::now() < until {
        let server = {
            let servers = servers.lock().expect("servers");
            servers[dice.below(servers.len())]
        };
        let Ok(answer) = tokio::time::timeout(Duration::from_secs(30), raw::try_send(server, &request)).await else {
            continue;
        };
        match answer {
            Some(answer) if answer.whole && answer.status == 201 => {
                heard.lock().expect("heard").entry(intent).or_default().push(answer);
                return;
            }
            Some(answer) if answer.whole && answer.text().contains("outcome_uncertain") => {
                uncertain.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // In progress, a server that was killed, a database that is down: with the same key again.
            _ => tokio::time::sleep(Duration::from_millis(20 + dice.below(200) as u64)).await,
        }
    }
    panic!("intent {intent} came to no end");
}

async fn start(of: &Serve, servers: &Addresses, place: usize) -> Server {
    let server = of.start().await;
    servers.lock().expect("servers")[place] = server.addr;
    server
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stdout, reason = "the seed repeats a run, the figures are its result")]
async fn every_intent_has_one_effect_whatever_is_killed() {
    let Some(database) = server() else { return };
    let seed = std::env::var("SAMEKEY_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed_0007_u64);
    println!("seed {seed}");
    let (mut dice, size) = (Dice(seed), size());
    let upstream = Upstream::start().await;
    let of = serve(&upstream, &database, "postgres")
        .set("--lease", "3s")
        .set("--timeout", "5s")
        .waits("200ms", "1s")
        .set("--store-connections", "6");
    let servers: Addresses = Arc::new(Mutex::new(vec!["127.0.0.1:1".parse().expect("an address"); SERVERS]));
    let mut running = Vec::new();
    for place in 0..SERVERS {
        running.push(start(&of, &servers, place).await);
    }

    // Each intent is delivered one to five times, in any order, to any server.
    let mut deliveries: Vec<usize> = (0..size.intents).flat_map(|intent| vec![intent; 1 + dice.below(5)]).collect();
    for last in (1..deliveries.len()).rev() {
        deliveries.swap(last, dice.below(last + 1));
    }
    let (heard, uncertain): (Heard, _) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let total = deliveries.len();
    let done = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    let queue = Arc::new(Mutex::new(deliveries));
    for client in 0..size.clients {
        let (queue, servers, heard, done) = (queue.clone(), servers.clone(), heard.clone(), done.clone());
        let uncertain = uncertain.clone();
        clients.spawn(async move {
            loop {
                let Some(intent) = queue.lock().expect("queue").pop() else { return };
                let dice = Dice(seed ^ ((intent as u64 + 1) << 20) ^ (client as u64 + 1));
                deliver(intent, dice, servers.clone(), heard.clone(), uncertain.clone()).await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    // Spread over the run, by what is done and not by the clock.
    let events = size.kills + size.crashes;
    for event in 0..events {
        let at = total * (event + 1) / (events + 2);
        while done.load(Ordering::Relaxed) < at && !clients.is_empty() {
            let _ = tokio::time::timeout(Duration::from_millis(20), async {
                if let Some(ended) = clients.join_next().await {
                    ended.expect("a client");
                }
            })
            .await;
        }
        if event % (events / size.crashes.max(1)).max(1) == 0
            && event / (events / size.crashes.max(1)).max(1) < size.crashes
        {
            tokio::task::block_in_place(|| database.crash());
        } else {
            let place = dice.below(SERVERS);
            let again = running.swap_remove(place).kill().await;
            let server = start(&again, &servers, place).await;
            running.push(server);
            running.swap(place, SERVERS - 1);
        }
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client");
    }

    let heard = heard.lock().expect("heard");
    let mut ran = 0;
    for intent in 0..size.intents {
        let effects = upstream.effects(&format!("intent-{intent}"));
        assert!(effects <= 1, "intent {intent} had {effects} effects");
        if let Some(answers) = heard.get(&intent) {
            assert_eq!(effects, 1, "intent {intent} was answered");
            ran += 1;
            let first = &answers[0];
            for other in answers {
                assert_eq!((&other.body, other.header("location")), (&first.body, first.header("location")));
            }
        }
    }
    let uncertain = uncertain.load(Ordering::Relaxed);
    println!(
        "{total} deliveries of {} intents: {ran} ended, {uncertain} deliveries met an unknown outcome",
        size.intents
    );
    assert!(ran * 10 >= size.intents * 8, "most of them ended: {ran}");
}
