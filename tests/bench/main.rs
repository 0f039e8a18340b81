//! What `cargo xtask bench` starts: the other ends of its comparisons, a load generator, and the store by itself.
//!
//! ```text
//! bench upstream | echo | proxy UPSTREAM          listens on a free port of the loopback and prints its address
//! bench load ADDR KIND CONNECTIONS MILLIS         KIND: plain, new (a new key each), same (one key)
//! bench rows FOLDER MILLIS                        bare rusqlite, one statement per transaction
//! bench claims FOLDER CLIENTS MILLIS
//! bench look-ups FOLDER ASKERS MILLIS
//! bench postgres-claims URL CLIENTS MILLIS         the same on a PostgreSQL database
//! bench postgres-look-ups URL ASKERS MILLIS
//! ```

mod load;
mod serve;
mod store;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A typing error must not start an hour of load.
const LONGEST: Duration = Duration::from_secs(120);
const MOST: usize = 1024;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["upstream"] => serve::upstream(),
        ["echo"] => serve::echo(),
        ["proxy", to] => serve::proxy(to.parse().context("UPSTREAM is host:port")?),
        ["load", to, kind, connections, span] => {
            let kind = kind.parse().map_err(anyhow::Error::msg)?;
            load::run(to.parse().context("ADDR is host:port")?, kind, count(connections)?, millis(span)?)
        }
        ["rows", folder, span] => store::rows(Path::new(folder), millis(span)?),
        ["claims", folder, clients, span] => store::claims(Path::new(folder), count(clients)?, millis(span)?),
        ["look-ups", folder, askers, span] => store::look_ups(Path::new(folder), count(askers)?, millis(span)?),
        ["postgres-claims", url, clients, span] => store::claims_in(url, count(clients)?, millis(span)?),
        ["postgres-look-ups", url, askers, span] => store::look_ups_in(url, count(askers)?, millis(span)?),
        _ => bail!("see the first lines of tests/bench/main.rs; `cargo xtask bench` runs it all"),
    }
}

fn count(text: &str) -> Result<usize> {
    Ok(text.parse::<usize>()?.clamp(1, MOST))
}

fn millis(text: &str) -> Result<Duration> {
    Ok(Duration::from_millis(text.parse()?).min(LONGEST))
}

/// What is measured, from now on.
struct Turn {
    began: Instant,
    ticks: u64,
}

impl Turn {
    fn begin() -> Self {
        Self { began: Instant::now(), ticks: ticks() }
    }

    fn is_over(&self, span: Duration) -> bool {
        self.began.elapsed() >= span
    }

    /// One line of figures for whoever started this.
    #[allow(clippy::print_stdout, reason = "its only result")]
    fn report(&self, mut took: Vec<u32>, other: usize) {
        took.sort_unstable();
        let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or_default();
        let rate = took.len() as f64 / self.began.elapsed().as_secs_f64();
        // A tick of `/proc` is 10 ms on every Linux.
        let own_us = (ticks() - self.ticks) as f64 * 10_000.0 / took.len().max(1) as f64;
        println!("rate {rate:.1} p50_us {} p99_us {} other {other} own_us {own_us:.2}", at(0.5), at(0.99));
    }
}

/// The processor time of this process.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}
