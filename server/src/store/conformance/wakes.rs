//! Waiters hear of every change, whoever made it.

use super::*;

async fn is_woken(watch: &mut crate::store::Watch) -> bool {
    tokio::time::timeout(s(2), watch.changed()).await.is_ok()
}

async fn a_change_wakes_those_who_watched_before_they_looked(bench: Bench) {
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    let mut watch = bench.store.watch(&ask("k1"));
    let retry = Ask { holder: holder(2), ..ask("k1") };
    assert_eq!(bench.store.peek(&retry).await.unwrap().unwrap().say, Say::Wait);
    finish(&bench.store, &ask("k1"), id, fence).await;
    assert!(is_woken(&mut watch).await);
    assert_eq!(bench.store.peek(&retry).await.unwrap().unwrap().say, Say::Replay);
    let quiet = tokio::time::timeout(Duration::from_millis(200), watch.changed()).await;
    assert!(quiet.is_err(), "our own commits do not count as another process's");
}

async fn another_process_on_the_file_wakes_too(bench: Bench) {
    let second = bench.second().await;
    let (id, fence) = run(&second, &ask("k1")).await;
    let retry = Ask { holder: holder(2), ..ask("k1") };
    let mut watch = bench.store.watch(&retry);
    assert_eq!(bench.store.peek(&retry).await.unwrap().unwrap().say, Say::Wait);
    // What was there before the watch may wake it once.
    let _ = tokio::time::timeout(Duration::from_millis(200), watch.changed()).await;
    let finished = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        finish(&second, &ask("k1"), id, fence).await;
        second
    });
    assert!(is_woken(&mut watch).await);
    let _open = finished.await.unwrap();
    assert_eq!(bench.store.peek(&retry).await.unwrap().unwrap().say, Say::Replay);
}

super::cases! {
    a_change_wakes_those_who_watched_before_they_looked,
    another_process_on_the_file_wakes_too,
}
