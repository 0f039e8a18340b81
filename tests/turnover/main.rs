//! A store in which as much expires as comes: claims are hardly slower than in an idle one, and neither the file nor
//! the WAL grows.
//!
//! Time is a clock of the test's own, which moves with each record: so a million records can come and go in minutes.
//! Few records in the normal run; `cargo xtask turnover` for a million.

mod command;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use command::Commands;
use samekey::clock::{Clock, Hands};
use samekey::store::SqliteOptions;
use samekey::{Policy, Store};
use samekey_core::Timestamp;
use tokio::task::JoinSet;

/// How many records live at once in the normal run.
const RECORDS: u64 = 20_000;

/// The store's time that one record takes. Many small steps: the clock goes on as a clock does.
const EACH: Duration = Duration::from_millis(100);

/// Half of a record's life its answer is kept, then its tombstone.
const fn lives(records: u64) -> Duration {
    EACH.saturating_mul(records as u32)
}

/// Clients that wait for nothing but the store, to come through the records soon.
const CROWD: usize = 64;
/// Clients at a pace that the store bears easily, to see how long a claim takes.
const PACED: u64 = 16;
const PACE: Duration = Duration::from_millis(10);

const ROUNDS: usize = 5;

/// How much slower the slowest claims of a round may be while the sweeper is at work.
const SLOWER: u32 = 3;
/// Below this nobody waits, and on a machine that builds something else at the same time it is chance.
const NEGLIGIBLE: Duration = Duration::from_millis(10);

/// What the file may grow by while all records are replaced once: pages are not all full.
const FILE_SLACK_BYTES: u64 = 8 << 20;
/// Where the WAL is moved, and what is written while it is.
const WAL_BYTES: u64 = 80 << 20;

struct Scene {
    store: Store,
    hands: Hands,
    commands: Commands,
    records: u64,
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "the figures are what people want to see")]
async fn as_much_expires_as_comes() {
    let records = std::env::var("SAMEKEY_TURNOVER_RECORDS").ok().map(|text| text.parse().expect("a number"));
    let records = records.unwrap_or(RECORDS);
    let span = if records > RECORDS { Duration::from_secs(20) } else { Duration::from_secs(1) };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("samekey.db");
    let (clock, hands) = Clock::manual(Timestamp::from_millis(1_796_000_000_000));
    let store = Store::open(SqliteOptions::new(&file).clock(clock.clone())).await.expect("a store");
    let policy = Policy::new("orders.create").retention(lives(records) / 2).remember(lives(records));
    store.policies().add(policy.clone());
    let scene = Arc::new(Scene { store, hands, commands: Commands::new(policy, clock), records });

    let began = Instant::now();
    crowd(&scene, records).await;
    eprintln!("turnover: {records} records came in {:.1} s, {}", began.elapsed().as_secs_f64(), size(&file));

    let mut idle = Vec::new();
    let mut busy = Vec::new();
    for _ in 0..ROUNDS {
        settle(&scene).await;
        idle.push(paced(&scene, span, false).await);
        busy.push(paced(&scene, span, true).await);
    }
    let (idle, busy) = (median(idle), median(busy));
    eprintln!("turnover: a claim in an idle store {idle}; while as many expire as come {busy}");

    let (before, began) = (Size::of(&file), Instant::now());
    crowd(&scene, records).await;
    settle(&scene).await;
    let after = Size::of(&file);
    eprintln!("turnover: all replaced in {:.1} s; {before} before, {after} after", began.elapsed().as_secs_f64());
    let rows = rows(&file);
    eprintln!("turnover: {rows} records");

    // An outage as long as memory: all is due at once.
    scene.hands.advance(lives(records));
    let flood = paced(&scene, span, false).await;
    eprintln!("turnover: a claim while all {rows} records are due at once {flood}");

    assert!(rows <= records + records / 10, "{rows} rows stand where {records} live");
    let most = |idle: Duration| (idle * SLOWER).max(NEGLIGIBLE);
    assert!(busy.p99 <= most(idle.p99), "{busy} is over {SLOWER} times {idle}");
    assert!(flood.p99 <= most(idle.p99), "{flood} is over {SLOWER} times {idle}");
    assert!(after.file <= before.file + before.file / 10 + FILE_SLACK_BYTES, "the file grew from {before} to {after}");
    assert!(after.wal <= WAL_BYTES, "the WAL grew to {after}");
    scene.store.close().await;
}

/// Brings so many records, as fast as the store takes them; the clock moves with each.
async fn crowd(scene: &Arc<Scene>, records: u64) {
    let left = Arc::new(AtomicU64::new(records));
    let mut clients = JoinSet::new();
    for _ in 0..CROWD {
        let (scene, left) = (Arc::clone(scene), Arc::clone(&left));
        clients.spawn(async move {
            let one_less = |left: u64| left.checked_sub(1);
            while left.try_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
                scene.commands.run(&scene.store).await;
                scene.hands.advance(EACH);
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.expect("a client that saw nothing wrong");
    }
}

/// How long claims take at a steady pace. `moves`: the clock goes on, so that for each that comes another one expires
/// and a third is forgotten.
async fn paced(scene: &Arc<Scene>, span: Duration, moves: bool) -> Took {
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..PACED {
        let scene = Arc::clone(scene);
        clients.spawn(async move {
            let mut took = Vec::new();
            let mut ticks = tokio::time::interval(PACE);
            tokio::time::sleep(PACE * u32::try_from(client).unwrap_or(0) / PACED as u32).await;
            while began.elapsed() < span {
                ticks.tick().await;
                took.push(scene.commands.run(&scene.store).await);
                if moves {
                    scene.hands.advance(EACH);
                }
            }
            took
        });
    }
    let mut took = Vec::new();
    while let Some(its) = clients.join_next().await {
        took.extend(its.expect("a client that saw nothing wrong"));
    }
    Took::of(took)
}

/// Sweeps to the end of what is due, so that an idle store is idle.
async fn settle(scene: &Scene) {
    let mut turns = 0;
    while scene.store.sweep().await.expect("a turn").more {
        turns += 1;
        assert!(turns < scene.records * 4 + 1000, "the sweeper comes to an end");
    }
}

fn median(mut rounds: Vec<Took>) -> Took {
    rounds.sort_by_key(|took| took.p99);
    rounds.swap_remove(rounds.len() / 2)
}

#[derive(Clone, Copy)]
struct Took {
    claims: usize,
    p50: Duration,
    p99: Duration,
    most: Duration,
}

impl Took {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |share: f64| all.get((all.len() as f64 * share) as usize).copied().unwrap_or_default();
        Self { claims: all.len(), p50: at(0.5), p99: at(0.99), most: all.last().copied().unwrap_or_default() }
    }
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { claims, p50, p99, most } = self;
        write!(f, "takes {p50:.1?}, p99 {p99:.1?}, at most {most:.1?} ({claims} claims)")
    }
}

#[derive(Clone, Copy)]
struct Size {
    file: u64,
    wal: u64,
}

impl Size {
    fn of(file: &Path) -> Self {
        let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |seen| seen.len());
        Self { file: bytes(file), wal: bytes(&file.with_extension("db-wal")) }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file {:.1} MB, WAL {:.1} MB", self.file as f64 / 1e6, self.wal as f64 / 1e6)
    }
}

fn size(file: &Path) -> Size {
    Size::of(file)
}

fn rows(file: &Path) -> u64 {
    let conn = rusqlite::Connection::open(file).expect("the store's file");
    conn.query_row("SELECT count(*) FROM idempotency_keys", [], |row| row.get::<_, i64>(0))
        .expect("a count")
        .unsigned_abs()
}
