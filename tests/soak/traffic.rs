//! The mix: each client plays one scene after the other, and settles the keys of each.

use std::time::Duration;

use support::{Answer, Connection, Request, Server, keys};

use crate::service::{PAGE_BYTES, Service};

/// Between two scenes of a client: what is looked for is growth, not speed.
const PACE: Duration = Duration::from_millis(4);
const LARGE: usize = 700_000;
const WAITERS: usize = 3;

/// How often each scene was played.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Played {
    pub(crate) scenes: u64,
    pub(crate) requests: u64,
}

/// Plays until `over` says so.
pub(crate) async fn client(samekey: &Server, service: &Service, number: usize, over: impl Fn() -> bool) -> Played {
    let mut played = Played::default();
    let mut connection = samekey.connect().await;
    // Clients begin at different places of the programme, or all would time out together.
    let mut scene = number * 7;
    while !over() {
        let key = keys::v7();
        played.requests += match scene % 50 {
            0 => timeout(samekey, service, &key).await,
            1 | 26 => hang_up(samekey, service, &key).await,
            2 | 27 => waiters(samekey, service, &key).await,
            3 => large(&mut connection, service, &key).await,
            4..=8 => mismatch(&mut connection, service, &key).await,
            9..=14 => uncovered(&mut connection).await,
            15..=22 => replays(&mut connection, service, &key).await,
            _ => {
                connection.exchange(&Request::order(&key)).await.ran(201, "completed", 1);
                assert_eq!(service.settle(&key), 1, "one effect of {key}");
                1
            }
        };
        played.scenes += 1;
        scene += 1;
        tokio::time::sleep(PACE).await;
    }
    played
}

async fn replays(connection: &mut Connection, service: &Service, key: &str) -> u64 {
    let first = connection.exchange(&Request::order(key)).await;
    first.ran(201, "completed", 1);
    for _ in 0..3 {
        connection.exchange(&Request::order(key)).await.replays(&first);
    }
    assert_eq!(service.settle(key), 1, "one effect of {key}");
    4
}

async fn mismatch(connection: &mut Connection, service: &Service, key: &str) -> u64 {
    connection.exchange(&Request::order(key)).await.ran(201, "completed", 1);
    let other = Request::post("/orders").key(key).json(r#"{"sku":"coffee","qty":2}"#);
    connection.exchange(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    assert_eq!(service.settle(key), 1, "one effect of {key}");
    2
}

async fn uncovered(connection: &mut Connection) -> u64 {
    let page = connection.exchange(&Request::new("GET", "/page")).await;
    assert_eq!((page.status, page.body.len(), page.whole), (200, PAGE_BYTES, true));
    let made = connection.exchange(&Request::post("/orders").json("{}")).await;
    assert_eq!(made.status, 201);
    2
}

async fn large(connection: &mut Connection, service: &Service, key: &str) -> u64 {
    let upload = Request::post("/orders").key(key).body("application/octet-stream", vec![b'x'; LARGE]);
    let first = connection.exchange(&upload).await;
    first.ran(201, "completed", 1);
    connection.exchange(&upload).await.replays(&first);
    assert_eq!(service.settle(key), 1, "one effect of {key}");
    2
}

/// The service acts and says nothing in time; its late answer settles the command.
async fn timeout(samekey: &Server, service: &Service, key: &str) -> u64 {
    let request = Request::post("/silent").key(key).json("{}");
    samekey.send(&request).await.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    let settled = samekey.until(&request, |answer| answer.status == 201).await;
    assert!(settled.replayed(), "{settled:?}");
    assert_eq!(service.settle(key), 1, "one effect of {key}");
    2
}

async fn hang_up(samekey: &Server, service: &Service, key: &str) -> u64 {
    let request = Request::post("/slow").key(key).json("{}");
    let mut connection = samekey.connect().await;
    connection.request(&request).await;
    connection.reset();
    let answer = samekey.until(&request, |answer| answer.status == 201).await;
    assert!(answer.whole);
    assert_eq!(service.settle(key), 1, "one effect of {key}");
    2
}

async fn waiters(samekey: &Server, service: &Service, key: &str) -> u64 {
    let request = Request::post("/slow").key(key).json("{}");
    let sent: Vec<_> = (0..=WAITERS).map(|_| samekey.spawn(&request)).collect();
    let mut answers: Vec<Answer> = Vec::new();
    for answer in sent {
        answers.push(answer.await.expect("an answer"));
    }
    let (ran, replayed): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| !answer.replayed());
    assert_eq!((ran.len(), replayed.len()), (1, WAITERS), "{answers:?}");
    for replay in replayed {
        replay.replays(ran[0]);
    }
    assert_eq!(service.settle(key), 1, "one effect of {key}");
    1 + WAITERS as u64
}
