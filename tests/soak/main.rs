//! A mix of traffic through the real binary leaves nothing behind: memory, descriptors and threads stay flat, the
//! WAL stays bounded, and each key has one effect.
//!
//! Short in the normal run; `cargo xtask soak --minutes N` for longer.

mod resources;
mod service;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use resources::Resources;
use service::Service;
use support::{Serve, Server};
use traffic::Played;

const CLIENTS: usize = 24;
const DEFAULT: Duration = Duration::from_secs(12);

/// What the page caches of all connections, the allocator's slack and the WAL's index may still take after the
/// warm-up. A leak of 100 bytes for each request passes it within minutes.
const SLACK_BYTES: u64 = 24 << 20;
/// SQLite's file is cut to this when it starts anew; a batch that began before may stand on top.
const WAL_BYTES: u64 = 80 << 20;
/// A record with its answer and its two entries in indices.
const RECORD_BYTES: u64 = 2048;
/// Threads for large fingerprints come and go.
const THREADS: u64 = 8;

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "the figures are what people want to see")]
async fn a_mix_of_traffic_leaves_nothing_behind() {
    let span = std::env::var("SAMEKEY_SOAK_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    let span = span.map_or(DEFAULT, Duration::from_secs);
    let service = Service::default();
    let upstream = service.start().await;
    let serve = Serve::to(&format!("http://{upstream}")).quick().waits("20s", "20s").set("--log-level", "off");
    let samekey = Arc::new(serve.start().await);
    samekey.until_ready().await;
    let at_rest = Resources::of(&samekey);
    eprintln!("soak: at rest        {at_rest}");

    let warm_up = play(&samekey, &service, span / 4).await;
    let warm = quiet(&samekey, at_rest).await;
    eprintln!("soak: warmed up      {warm}; {} requests", warm_up.requests);

    let played = play(&samekey, &service, span - span / 4).await;
    let end = quiet(&samekey, at_rest).await;
    let rate = played.requests as f64 / (span - span / 4).as_secs_f64();
    eprintln!("soak: in the end     {end}; {} requests ({rate:.0}/s), {} effects", played.requests, service.made());

    assert_eq!(service.left(), 0, "keys that took effect after they were settled");
    assert!(played.requests > 100, "traffic flowed: {played:?}");
    assert!(end.memory <= warm.memory + warm.memory / 10 + SLACK_BYTES, "memory grew from {warm} to {end}");
    assert!(end.threads <= at_rest.threads.max(warm.threads) + THREADS, "threads grew from {warm} to {end}");
    assert!(end.wal <= WAL_BYTES, "the WAL grew to {end}");
    let records = warm_up.scenes + played.scenes;
    assert!(end.file <= (1 << 20) + records * RECORD_BYTES, "{records} records take {end}");
    assert!(Arc::into_inner(samekey).expect("nobody else").stop().await.folder().is_dir());
}

async fn play(samekey: &Arc<Server>, service: &Service, span: Duration) -> Played {
    let over = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let (samekey, service, over) = (Arc::clone(samekey), service.clone(), Arc::clone(&over));
        clients
            .spawn(async move { traffic::client(&samekey, &service, number, || over.load(Ordering::Relaxed)).await });
    }
    tokio::time::sleep(span).await;
    over.store(true, Ordering::Relaxed);
    let mut played = Played::default();
    while let Some(its) = clients.join_next().await {
        let its = its.expect("a client that saw nothing wrong");
        played.scenes += its.scenes;
        played.requests += its.requests;
    }
    played
}

/// Waits until connections are closed on both sides, and says what is left.
async fn quiet(samekey: &Server, at_rest: Resources) -> Resources {
    // Beyond those at rest there may be reading connections to the store: three descriptors each.
    let allowed = at_rest.descriptors + 3 * 8 + 4;
    let patience = Instant::now();
    loop {
        let now = Resources::of(samekey);
        if now.descriptors <= allowed {
            return now;
        }
        assert!(patience.elapsed() < Duration::from_secs(30), "descriptors stay open: {at_rest} at rest, now {now}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
