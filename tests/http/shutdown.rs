//! SIGTERM: what runs is finished, what comes is refused.

use rustix::process::Signal;
use std::time::Duration;
use support::patience::within;
use support::raw::Connection;
use support::{Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn sigterm_lets_running_handlers_finish_and_their_callers_hear_it() {
    for signal in [Signal::TERM, Signal::INT] {
        let upstream = Upstream::start().await;
        let gate = Gate::new();
        upstream.next(Reply::json(201, "{}").gated(&gate));
        let mut samekey = Serve::before(&upstream).start().await;
        let first = samekey.spawn(&Request::order("k"));
        upstream.ledger().arrived(1).await;
        let waiter = samekey.spawn(&Request::order("k"));
        tokio::time::sleep(Duration::from_millis(200)).await;
        samekey.signal(signal);
        tokio::time::sleep(Duration::from_millis(300)).await;
        gate.open();
        let first = first.await.expect("the first answer");
        first.ran(201, "completed", 1);
        waiter.await.expect("the waiter's answer").replays(&first);
        assert!(samekey.exited().await.success());
        let samekey = samekey.serve().start().await;
        samekey.send(&Request::order("k")).await.replays(&first);
    }
}

#[tokio::test]
async fn while_draining_nothing_new_is_claimed() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    let mut samekey = Serve::before(&upstream).start().await;
    let mut kept = samekey.connect().await;
    kept.exchange(&Request::new("GET", "/warm")).await;
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let first = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(2).await;
    samekey.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(300)).await;
    if let Ok(mut late) = Connection::try_open(samekey.addr).await {
        late.request(&Request::order("late")).await;
        if let Ok(answer) = late.try_answer().await {
            assert_eq!(answer.status, 503, "{answer:?}");
        }
    }
    gate.open();
    first.await.expect("the first answer").ran(201, "completed", 1);
    assert!(samekey.exited().await.success());
    assert_eq!(upstream.effects("late"), 0);
}

#[tokio::test]
async fn idle_clients_do_not_keep_it_from_leaving() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut idle = samekey.connect().await;
    idle.exchange(&Request::order("k")).await;
    let _silent = samekey.connect().await;
    let mut half = samekey.connect().await;
    half.send(b"POST /orders HTTP/1.1\r\nHost: h\r\n").await;
    within(Duration::from_secs(15), "leaving", samekey.stop()).await;
}

#[tokio::test]
async fn a_handler_longer_than_the_drain_is_left_behind_as_uncertain() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::silence());
    let serve = Serve::before(&upstream).set("--drain", "500ms").set("--lease", "1s").waits("0s", "20s");
    let mut samekey = serve.start().await;
    let first = samekey.spawn(&Request::order("k"));
    upstream.ledger().arrived(1).await;
    samekey.signal(Signal::TERM);
    within(Duration::from_secs(8), "leaving after --drain", samekey.exited()).await;
    drop(first.await);
    let samekey = serve.start().await;
    let settled = samekey.until(&Request::order("k"), |answer| answer.receipt().state != "in_progress").await;
    settled.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    assert_eq!(upstream.effects("k"), 1);
}
