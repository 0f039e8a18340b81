//! samekey killed and stopped: what it left is settled by whoever comes after.

use rustix::process::Signal;
use std::time::Duration;
use support::{Request, Serve, Server};

use crate::shop::{Fate, PROBED, Shop};

#[tokio::test]
async fn what_a_killed_samekey_left_is_settled_after_the_restart() {
    let shop = Shop::open().await;
    let serve = shop.serve(PROBED);
    let samekey = serve.start().await;
    shop.fate(Fate::Silent);
    let lost = samekey.spawn(&Request::order("k"));
    while shop.orders("k") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let samekey = samekey.kill().await.start().await;
    assert!(lost.await.is_err(), "the caller heard nothing");
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(found.replayed());
    assert_eq!((shop.orders("k"), shop.commands("k")), (1, 1));
    // Nobody has to retry for it: silent claims are looked for.
    let logs = samekey.logs.text();
    assert!(logs.contains("reason=\"lapse\"") || logs.contains("event=\"probe\""), "{logs}");
}

#[tokio::test]
async fn a_record_that_nobody_retries_is_settled_all_the_same() {
    let shop = Shop::open().await;
    let samekey = shop.serve(PROBED).start().await;
    shop.fate(Fate::Silent);
    let lost = samekey.spawn(&Request::order("k"));
    while shop.orders("k") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let samekey = samekey.kill().await.start().await;
    assert!(lost.await.is_err());
    let lapsed = samekey.logs.line_with("event=\"uncertain\"").await.expect("a line");
    assert!(lapsed.contains("reason=\"lapse\"") && lapsed.contains("key_hash="), "{lapsed}");
    samekey.logs.line_with("event=\"settled\"").await.expect("a line");
    let replay = samekey.send(&Request::order("k")).await;
    assert_eq!((replay.status, replay.replayed()), (201, true));
}

async fn pair(serve: Serve) -> (Server, Server) {
    (serve.start().await, serve.start().await)
}

/// One process claims and is stopped for longer than its lease and `probe_after` together; the other one settles the
/// record and runs the command.
#[tokio::test]
async fn a_process_that_was_stopped_runs_nothing_a_second_time() {
    let shop = Shop::open().await;
    let (stopped, other) = pair(shop.serve(PROBED)).await;
    for n in 0..6_u64 {
        let key = format!("k-{n}");
        let sent = stopped.spawn(&Request::order(&key));
        tokio::time::sleep(Duration::from_micros(700 * n)).await;
        stopped.signal(Signal::STOP);
        let ran = other.until(&Request::order(&key), |answer| answer.status == 201).await;
        stopped.signal(Signal::CONT);
        let late = sent.await.expect("an answer");
        assert!([201, 409].contains(&late.status), "{late:?}");
        let replay = other.send(&Request::order(&key)).await;
        assert_eq!((replay.status, &replay.body), (201, &ran.body));
        assert_eq!(shop.orders(&key), 1, "{key}, stopped after {} µs", 700 * n);
    }
}

#[tokio::test]
async fn of_two_processes_one_asks_about_each_record() {
    let shop = Shop::open().await;
    let (one, two) = pair(shop.serve(PROBED)).await;
    shop.fate(Fate::Lost);
    for n in 0..8 {
        one.send(&Request::order(&format!("k-{n}"))).await;
    }
    for n in 0..8 {
        two.until(&Request::order(&format!("k-{n}")), |answer| answer.status == 201).await;
        assert_eq!(shop.questions(&format!("k-{n}")).len(), 1, "k-{n}");
    }
}
