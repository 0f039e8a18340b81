//! Measured, not asserted: `cargo test -p samekey --release --lib figures -- --ignored --nocapture`.

use std::time::Instant;

use super::*;

const SPAN: Duration = Duration::from_secs(3);

/// Claims and completes with this many producers; per second.
async fn grouped(producers: usize) -> f64 {
    let directory =
        tempfile::tempdir_in(std::env::var_os("SAMEKEY_BENCH_DIR").unwrap_or_else(|| "/tmp".into())).unwrap();
    let store = Store::open(SqliteOptions::new(directory.path().join("samekey.db"))).await.unwrap();
    let (clock, began) = (Clock::system(), Instant::now());
    let mut producing = tokio::task::JoinSet::new();
    for producer in 0..producers {
        let (store, clock) = (store.clone(), clock.clone());
        producing.spawn(async move {
            let mut done = 0_u64;
            while began.elapsed() < SPAN {
                let mut entropy = [0; 10];
                entropy[..8].copy_from_slice(&(done << 16 | producer as u64).to_be_bytes());
                let key = Key::mint(clock.now(), entropy);
                let asked = Ask { actor: Actor::new(format!("u{producer}")), ..ask(key.expose()) };
                let (id, fence) = run(&store, &asked).await;
                finish(&store, &asked, id, fence).await;
                done += 1;
            }
            done
        });
    }
    let done: u64 = producing.join_all().await.into_iter().sum();
    let rate = done as f64 / began.elapsed().as_secs_f64();
    store.close().await;
    rate
}

/// The same rows with bare rusqlite, one statement per transaction.
fn bare() -> f64 {
    let directory =
        tempfile::tempdir_in(std::env::var_os("SAMEKEY_BENCH_DIR").unwrap_or_else(|| "/tmp".into())).unwrap();
    let conn = beside(&directory.path().join("bare.db"));
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    conn.execute_batch(
        "CREATE TABLE k (id INTEGER PRIMARY KEY, actor TEXT, op TEXT, idem_key TEXT, hash TEXT, state TEXT, \
         holder BLOB, lease INTEGER, status INTEGER, headers BLOB, body BLOB, UNIQUE (idem_key, op, actor))",
    )
    .unwrap();
    let (clock, began) = (Clock::system(), Instant::now());
    let mut done = 0_u64;
    while began.elapsed() < SPAN {
        let mut entropy = [0; 10];
        entropy[..8].copy_from_slice(&done.to_be_bytes());
        let key = Key::mint(clock.now(), entropy);
        conn.prepare_cached(
            "INSERT INTO k (actor, op, idem_key, hash, state, holder, lease) \
             VALUES ('u', 'orders.create', ?1, ?2, 'in_progress', ?3, ?4) ON CONFLICT DO NOTHING",
        )
        .unwrap()
        .execute((key.expose(), "f".repeat(80), [1_u8; 16], clock.now().as_millis()))
        .unwrap();
        conn.prepare_cached("UPDATE k SET state = 'completed', status = 201, headers = ?2, body = ?3 WHERE id = ?1")
            .unwrap()
            .execute((conn.last_insert_rowid(), &b"content-type: text/plain\r\n"[..], &b"done"[..]))
            .unwrap();
        done += 1;
    }
    done as f64 / began.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout, reason = "its only result")]
async fn replays_per_second() {
    let bench = Bench::new().await;
    let (id, fence) = run(&bench.store, &ask("k1")).await;
    finish(&bench.store, &ask("k1"), id, fence).await;
    for readers in [1, 8, 32] {
        let began = Instant::now();
        let mut reading = tokio::task::JoinSet::new();
        for _ in 0..readers {
            let store = bench.store.clone();
            reading.spawn(async move {
                let (mut done, asked) = (0_u64, ask("k1"));
                while began.elapsed() < SPAN {
                    assert_eq!(store.peek(&asked).await.unwrap().unwrap().say, Say::Replay);
                    done += 1;
                }
                done
            });
        }
        let done: u64 = reading.join_all().await.into_iter().sum();
        println!("{readers:>4} askers: {:.0} replays/s", done as f64 / began.elapsed().as_secs_f64());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout, reason = "its only result")]
async fn claims_and_completions_per_second() {
    let bare = bare();
    println!("bare rusqlite, one statement per transaction: {bare:.0}/s");
    for producers in [1, 8, 32, 128, 512] {
        let rate = grouped(producers).await;
        println!("{producers:>4} producers: {rate:.0}/s, {:.1} times bare", rate / bare);
    }
}
