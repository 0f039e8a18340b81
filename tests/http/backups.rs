//! A backup while requests run, and what a server on a restored store says to clients that retry.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Gate, Reply, Request, Serve, Upstream, keys};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn store(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn old_clients_retry_against_a_restored_backup_and_nothing_runs_a_second_time_unnoticed() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).quick();
    let samekey = Arc::new(serve.start().await);

    // Clients send one command after the other, and go on while the backup is made and after it.
    let over = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (samekey, over) = (Arc::clone(&samekey), Arc::clone(&over));
        clients.spawn(async move {
            let mut sent = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let key = if sent.len() % 3 == 2 { keys::v4() } else { keys::v7() };
                let answer = samekey.send(&order(&key, number)).await;
                answer.ran(201, "completed", 1);
                sent.push((key, number, answer.text()));
            }
            sent
        });
    }
    // Of these, all but one for each client have their answer.
    upstream.ledger().arrived(40).await;
    let copying = {
        let serve = serve.clone();
        tokio::task::spawn_blocking(move || serve.command(&["backup", "copy.db"]))
    };
    let copied = copying.await.expect("a command");
    assert!(copied.status.success(), "{}", said(&copied));
    let then = upstream.ledger().all().len();
    upstream.ledger().arrived(then + 40).await;
    // One is under way when the old server dies.
    let gate = Gate::new();
    let running = keys::v7();
    over.store(true, Ordering::Relaxed);
    let mut sent = Vec::new();
    while let Some(its) = clients.join_next().await {
        sent.extend(its.expect("a client that saw nothing wrong"));
    }
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let _lost = samekey.spawn(&order(&running, 0));
    let before = upstream.effects(&running);
    while upstream.effects(&running) == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let samekey = Arc::into_inner(samekey).expect("nobody else");
    let old = samekey.kill().await;
    gate.open();

    let folder = tempfile::tempdir().expect("another folder");
    let restored = folder.path().join("samekey.db");
    let made = old.command(&["restore", "copy.db", "--store", &store(&restored)]);
    assert!(made.status.success() && said(&made).contains("horizon"), "{}", said(&made));
    let new = Serve::before(&upstream).quick().store_at(&restored).start().await;

    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    for (key, number, answer) in &sent {
        let again = new.send(&order(key, *number)).await;
        let state = again.receipt().state;
        match state.as_str() {
            "completed" => assert_eq!(&again.text(), answer, "the answer that was given before"),
            "uncertain" => drop(again.refuses(409, "outcome_uncertain", "follow_status", "uncertain")),
            other => panic!("{other} for a command that ran before"),
        }
        *heard.entry(state).or_default() += 1;
    }
    new.send(&order(&running, 0)).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    assert!(heard["completed"] >= 20 && heard["uncertain"] >= 20, "both sides of the backup: {heard:?}");
    for (key, ..) in &sent {
        assert_eq!(upstream.effects(key), 1, "{key}");
    }
    assert_eq!(upstream.effects(&running), 1);
    new.stop().await;
}

fn order(key: &str, number: usize) -> Request {
    Request::order(key).actor(&format!("Bearer client-{number}"))
}

#[tokio::test]
async fn nothing_is_overwritten_and_no_other_file_is_taken_for_a_store() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let samekey = serve.start().await;
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    let first = serve.command(&["backup", "copy.db", "--store", "sqlite:samekey.db"]);
    assert!(first.status.success() && said(&first).contains("1 record of"), "{}", said(&first));
    let in_use = serve.command(&["restore", "copy.db", "--store", "sqlite:samekey.db"]);
    let again = serve.command(&["backup", "copy.db"]);
    for refused in [&in_use, &again] {
        assert!(!refused.status.success() && said(refused).contains("nothing is overwritten"), "{}", said(refused));
    }
    std::fs::write(serve.folder().join("notes.db"), "no database").expect("a file");
    let foreign = serve.command(&["restore", "notes.db", "--store", "sqlite:new.db"]);
    assert!(!foreign.status.success() && said(&foreign).contains("no SQLite database"), "{}", said(&foreign));
    let missing = serve.command(&["backup", "other.db", "--store", "sqlite:none.db"]);
    assert!(!missing.status.success() && said(&missing).contains("holds no store"), "{}", said(&missing));
    assert_eq!(samekey.send(&Request::order("k")).await.status, 201);
    samekey.stop().await;
}

#[tokio::test]
async fn a_horizon_in_the_file_holds_from_the_next_start_on_and_is_set_once() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let aged = |hours: u64| Request::order(&keys::v7_aged(Duration::from_secs(3600 * hours)));
    let samekey = serve.start().await;
    samekey.send(&aged(2)).await.ran(201, "completed", 1);
    let serve = samekey.stop().await;
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    let since = hour_ago.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let moment = rfc3339(since);
    let serve = serve.config(&format!("horizon = \"{moment}\"\n"));
    for start in 0..2 {
        let samekey = serve.start().await;
        samekey.send(&aged(2)).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        samekey.send(&aged(0)).await.ran(201, "completed", 1);
        let told = samekey.logs.text().contains("are uncertain from now on");
        samekey.stop().await;
        assert_eq!(told, start == 0, "said when it is set");
    }
    let future = serve.clone().set("--horizon", "2999-01-01T00:00:00Z");
    assert!(future.refused().await.1.contains("yet to come"));
    let wrong = serve.set("--horizon", "yesterday");
    assert!(wrong.refused().await.1.contains("2026-03-01T12:00:00Z"));
}

/// Seconds since 1970 in UTC, by the days of the Gregorian calendar.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut left) = (1970, days);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in months {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}T{:02}:{:02}:{:02}Z", left + 1, rest / 3600, rest / 60 % 60, rest % 60)
}
