//! Handlers that hang, and commands that run again by themselves.

use std::time::{Duration, Instant};
use support::patience::within;
use support::{Gate, Reply, Request};

use crate::shop::{Fate, PROBED, Shop};

#[tokio::test]
async fn a_handler_that_hangs_for_ever_is_let_go_and_asked_about() {
    let shop = Shop::open().await;
    let samekey = shop.serve(PROBED).start().await;
    shop.fate(Fate::Silent);
    let begun = Instant::now();
    let answer = samekey.send(&Request::order("k")).await;
    answer.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    assert!(shop.questions("k").is_empty(), "it may still act");
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(found.replayed());
    assert!(begun.elapsed() >= Duration::from_millis(2500), "not before nothing could be under way");
    assert!(shop.upstream.ledger().hang_ups() >= 1, "its connection was dropped before anybody asked");
    assert_eq!((shop.orders("k"), shop.commands("k")), (1, 1));
}

#[tokio::test]
async fn a_late_answer_comes_before_the_probe() {
    let shop = Shop::open().await;
    let samekey = shop.serve(PROBED).start().await;
    // The question of the start must not take the answer that is meant for the command.
    samekey.logs.line_with("event=\"probe_checked\"").await.expect("the probe is known to be right");
    let gate = Gate::new();
    shop.upstream.next(Reply::json(201, r#"{"id":"late"}"#).gated(&gate));
    let answer = samekey.send(&Request::order("k")).await;
    answer.refuses(504, "upstream_timeout", "follow_status", "uncertain");
    gate.open();
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert_eq!(found.json()["id"], "late");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(shop.questions("k").is_empty());
}

#[tokio::test]
async fn a_rerun_begins_when_the_first_run_is_let_go_and_not_before() {
    let shop = Shop::open().await;
    let samekey = shop.serve("recovery = \"rerun\"").start().await;
    // The first holder lives, and its service is at work for as long as it is listened to.
    shop.upstream.next(Reply::silence());
    let first = samekey.spawn(&Request::order("k"));
    shop.upstream.ledger().arrived(1).await;
    let storm: Vec<_> = (0..4)
        .map(|_| {
            let addr = samekey.addr;
            tokio::spawn(async move {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_secs(6) {
                    support::raw::send(addr, &Request::order("k")).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
        })
        .collect();
    within(Duration::from_secs(10), "the second run", shop.upstream.ledger().arrived(2)).await;
    assert_eq!(shop.upstream.ledger().hang_ups(), 1, "never two at once");
    first.await.expect("an answer").refuses(504, "upstream_timeout", "follow_status", "uncertain");
    for retries in storm {
        retries.await.expect("retries");
    }
    let replay = samekey.send(&Request::order("k")).await;
    assert_eq!((replay.status, replay.replayed(), replay.receipt().attempt), (201, true, Some(2)));
    assert_eq!(shop.commands("k"), 2);
}

#[tokio::test]
async fn a_rerun_that_is_refused_for_now_says_nothing_of_the_first_run() {
    let shop = Shop::open().await;
    let samekey = shop.serve("recovery = \"rerun\"").start().await;
    shop.fate(Fate::Lost);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    assert_eq!(shop.orders("k"), 1);
    shop.upstream.next(Reply::json(429, "{}").header("Retry-After", "1"));
    let again = samekey.until(&Request::order("k"), |_| shop.commands("k") == 2).await;
    again.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    shop.fate(Fate::Answered);
    let ran = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    ran.ran(201, "completed", 3);
}
