//! Memory stays bounded by configuration while large bodies arrive and 10,000 requests wait.
//!
//! The bound, which the documentation repeats: `max_buffered`, plus 48 KiB for each connection, plus 64 MiB.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::patience::within;
use support::{Connection, Gate, Reply, Request, Serve, Server, Upstream};

const KEYS: usize = 625;
const WAITERS_PER_KEY: usize = 16;
const WAITERS: usize = KEYS * WAITERS_PER_KEY;
const UPLOADS: usize = 200;
const UPLOAD: usize = 1024 * 1024;
const MAX_BUFFERED: usize = 32 * 1024 * 1024;
const PER_CONNECTION: usize = 48 * 1024;
const REST: usize = 64 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "the figure is what people want to see")]
async fn ten_thousand_waiters_and_large_bodies_stay_within_the_configured_memory() {
    raise_the_limit_of_open_files();
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script({
        let gate = gate.clone();
        move |received| Reply::json(201, &format!(r#"{{"id":"o-{}"}}"#, received.number)).gated(&gate)
    });
    let serve = Serve::before(&upstream).set("--max-body", "1MiB").set("--max-buffered", "32MiB");
    let samekey = serve.set("--timeout", "5m").set("--probe-after", "6m").waits("4m", "4m").start().await;
    let at_rest = memory(&samekey, "VmRSS");

    let running = open_all(samekey.addr, (0..KEYS).map(order)).await;
    upstream.ledger().arrived(KEYS).await;
    let begun = Instant::now();
    let waiting = open_all(samekey.addr, (0..WAITERS).map(|n| order(n % KEYS))).await;
    all_wait(&samekey, KEYS + WAITERS).await;
    let (with_waiters, took) = (memory(&samekey, "VmRSS"), begun.elapsed());

    // Those too many hear so at once, and claim nothing.
    for n in 0..50 {
        let answer = within(Duration::from_secs(10), "a refusal at once", samekey.send(&order(n))).await;
        match answer.status {
            503 => answer.refuses(503, "overloaded", "retry_same_key", "unknown"),
            _ => answer.refuses(409, "operation_in_progress", "wait", "in_progress"),
        };
    }

    // Bodies that stay one byte short of complete: as many as fit are held, the others refused.
    let uploads = (0..UPLOADS).map(|n| {
        let upload = Request::post("/files").actor("Bearer uploader").key(format!("upload-{n}"));
        upload.body("application/octet-stream", vec![b'x'; UPLOAD])
    });
    let mut refused = 0;
    let mut held = Vec::new();
    for upload in uploads {
        let bytes = upload.bytes();
        let mut client = samekey.connect().await;
        client.send(&bytes[..bytes.len() - 1]).await;
        match tokio::time::timeout(Duration::from_millis(20), client.answer()).await {
            Ok(answer) => {
                answer.refuses(503, "overloaded", "retry_same_key", "unknown");
                refused += 1;
            }
            Err(_) => held.push(client),
        }
    }
    let with_uploads = memory(&samekey, "VmRSS");
    assert!(held.len() * UPLOAD >= MAX_BUFFERED / 2, "half the buffer can be used: {} held", held.len());
    assert_eq!(upstream.ledger().count(), KEYS, "none of these ran");
    drop(held);

    gate.open();
    for mut client in running {
        client.answer().await.ran(201, "completed", 1);
    }
    for mut client in waiting {
        let answer = client.answer().await;
        assert!(answer.status == 201 && answer.replayed(), "{answer:?}");
    }
    for n in 0..KEYS {
        assert_eq!(upstream.effects(&key(n)), 1);
    }
    let peak = memory(&samekey, "VmHWM");
    let bound = MAX_BUFFERED + (KEYS + WAITERS) * PER_CONNECTION + REST;
    let mib = |bytes: usize| bytes / (1024 * 1024);
    eprintln!(
        "memory: {} MiB at rest, {} with {WAITERS} waiters (opened in {took:?}), {} with {UPLOADS} uploads of 1 MiB \
         ({refused} refused), {} at the peak; bound {} MiB",
        mib(at_rest),
        mib(with_waiters),
        mib(with_uploads),
        mib(peak),
        mib(bound),
    );
    assert!(peak <= bound, "{peak} bytes are over the bound of {bound}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fixture_this_machine_can_hold_that_many_connections() {
    raise_the_limit_of_open_files();
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script({
        let gate = gate.clone();
        move |_| Reply::json(201, "{}").gated(&gate)
    });
    // Both ends are in this process: half as many, that is.
    let half = WAITERS / 2;
    let open = open_all(upstream.addr(), (0..half).map(order)).await;
    upstream.ledger().arrived(half).await;
    gate.open();
    for mut client in open {
        assert_eq!(client.answer().await.status, 201);
    }
}

fn key(n: usize) -> String {
    format!("key-{n}")
}

fn order(n: usize) -> Request {
    Request::order(&key(n))
}

/// Sends each request on a connection of its own and reads nothing.
async fn open_all(addr: SocketAddr, requests: impl Iterator<Item = Request>) -> Vec<Connection> {
    let mut open = Vec::new();
    let mut opening = tokio::task::JoinSet::new();
    for request in requests {
        if opening.len() >= 64 {
            open.push(opening.join_next().await.expect("one").expect("a connection"));
        }
        opening.spawn(async move {
            let mut client = Connection::open(addr).await;
            client.request(&request).await;
            client
        });
    }
    while let Some(client) = opening.join_next().await {
        open.push(client.expect("a connection"));
    }
    open
}

/// Waits until the server holds so many connections and does little more than hold them.
async fn all_wait(samekey: &Server, connections: usize) {
    let folder = format!("/proc/{}/fd", samekey.pid());
    within(Duration::from_secs(120), "all connections accepted and quiet", async {
        let mut last = 0;
        loop {
            let open = std::fs::read_dir(&folder).expect("its open files").count();
            let spent = processor_time(samekey);
            if open >= connections && spent - last <= 10 {
                return;
            }
            last = spent;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    })
    .await;
}

/// In ticks.
fn processor_time(samekey: &Server) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", samekey.pid())).expect("its statistics");
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum()
}

/// `VmRSS` or `VmHWM` in bytes.
fn memory(samekey: &Server, what: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", samekey.pid())).expect("its status");
    let line = status.lines().find(|line| line.starts_with(what)).expect("a line about memory");
    line.split_whitespace().nth(1).expect("a figure").parse::<usize>().expect("kB") * 1024
}

/// The server inherits it. Root may go beyond the hard limit.
fn raise_the_limit_of_open_files() {
    let needed = 2 * (KEYS + WAITERS) as u64;
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < needed) {
        let hard = now.maximum.map(|hard| hard.max(needed));
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: hard });
        if raised.is_err() {
            setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum })
                .expect("up to the limit");
        }
    }
}
