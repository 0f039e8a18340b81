//! `cargo xtask bench`: what a key costs, as ratios of one run.
//!
//! Absolute figures belong to one machine and one hour; ratios of rounds that alternate travel. Besides the rate
//! stands the processor time that the server itself used for a request, which other load hardly moves.

mod child;
mod database;
mod figures;
mod nginx;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::{cargo, must, target_dir};
use child::Child;
use database::Database;
use figures::{Figures, Sample};

/// Measure samekey against what stands beside it, and print ratios.
///
/// Builds optimised, starts everything on the loopback, alternates between the candidates and prints the median of
/// the rounds. A full run takes some five minutes.
#[derive(clap::Args)]
pub struct Bench {
    /// One short round: whether it works, not how fast it is.
    #[arg(long)]
    quick: bool,

    /// How often each candidate has its turn; odd, because the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=51))]
    rounds: u16,

    /// How long a turn is, in milliseconds.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(50..=30_000))]
    millis: u32,

    /// Kept connections of the load.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,

    /// Where the databases lie: the disk counts. Made if it is missing, emptied of what was measured.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Only rows whose name contains this; may stand several times. The rows that others are compared with always run.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// How a row's load comes about.
enum Load<'a> {
    /// Over HTTP to this server, with this kind of key.
    Http(&'a Child, &'static str),
    /// In a process of its own, with these words.
    Alone(Vec<String>),
    /// `pgbench` with this script.
    Bare(&'a Database, PathBuf),
}

/// One line of a table; its rate is divided by that of the table's first one.
struct Row<'a> {
    name: String,
    load: Load<'a>,
    samples: Vec<Sample>,
}

impl<'a> Row<'a> {
    fn http(name: &str, server: &'a Child, kind: &'static str) -> Self {
        Self { name: name.to_owned(), load: Load::Http(server, kind), samples: Vec::new() }
    }

    fn alone(name: &str, words: &[&str]) -> Self {
        let words = words.iter().map(ToString::to_string).collect();
        Self { name: name.to_owned(), load: Load::Alone(words), samples: Vec::new() }
    }
}

impl Bench {
    pub fn run(mut self) -> Result<()> {
        if self.quick {
            (self.rounds, self.millis) = (1, 300);
        }
        let mut build = cargo(&["build", "--release", "--workspace", "--features", "samekey/cli"]);
        must(build.args(["--bin", "samekey", "--example", "bench"]))?;
        let release = target_dir()?.join("release");
        let (samekey, helper) = (release.join("samekey"), release.join("examples/bench"));
        let folder = self.folder.clone().unwrap_or_else(|| release.with_file_name("bench"));
        let folder = folder.join(std::process::id().to_string());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let measured = self
            .proxies(&samekey, &helper, &folder)
            .and_then(|()| self.stores(&helper, &folder))
            .and_then(|()| self.database(&helper, &folder));
        fs::remove_dir_all(&folder)?;
        measured
    }

    fn proxies(&self, samekey: &Path, helper: &Path, folder: &Path) -> Result<()> {
        let upstream = Child::helper(helper, &["upstream"])?;
        let to = upstream.addr().to_string();
        let echo = Child::helper(helper, &["echo"])?;
        let hyper = Child::helper(helper, &["proxy", &to])?;
        let nginx = nginx::start(folder, &to)?;
        let serve = |store: &str, level: &str| {
            let mut command = Command::new(samekey);
            command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "json"]);
            command.args(["--upstream", &format!("http://{to}"), "--log-level", level]);
            command.arg("--store").arg(format!("sqlite:{}", folder.join(store).display()));
            Child::samekey(command)
        };
        let (logging, silent) = (serve("logging.db", "info")?, serve("silent.db", "warn")?);

        let mut rows = vec![Row::http("bare upstream", &upstream, "plain")];
        rows.extend(nginx.iter().map(|nginx| Row::http("nginx as a proxy", nginx, "plain")));
        rows.push(Row::http("bare hyper proxy", &hyper, "plain"));
        rows.push(Row::http("samekey, no key", &logging, "plain"));
        rows.push(Row::http("samekey, new keys", &logging, "new"));
        rows.push(Row::http("samekey, new keys, no log", &silent, "new"));
        self.measure(&format!("proxy, {} connections", self.connections), rows, helper, 0)?;
        if nginx.is_none() {
            println!("nginx as a proxy                   skipped: nginx is not installed");
        }

        let mut rows = vec![Row::http("bare axum echo", &echo, "plain")];
        rows.push(Row::http("samekey, replays", &logging, "same"));
        rows.push(Row::http("samekey, replays, no log", &silent, "same"));
        self.measure(&format!("replays, {} connections", self.connections), rows, helper, 0)
    }

    fn stores(&self, helper: &Path, folder: &Path) -> Result<()> {
        let place = folder.display().to_string();
        let mut rows = vec![Row::alone("bare rusqlite, 1 client", &["rows", &place])];
        for clients in ["1", "8", "32", "128"] {
            rows.push(Row::alone(&format!("claim + complete, {clients} clients"), &["claims", &place, clients]));
        }
        for askers in ["1", "32"] {
            rows.push(Row::alone(&format!("look-ups, {askers} askers"), &["look-ups", &place, askers]));
        }
        self.measure("store", rows, helper, 0)
    }

    /// 32 clients wait for both statements; whoever looks up waits for one.
    fn database(&self, helper: &Path, folder: &Path) -> Result<()> {
        let Some(database) = Database::start(helper, folder)? else {
            println!("PostgreSQL                         skipped: it is not installed");
            return Ok(());
        };
        let url = database.url();
        let bare = Load::Bare(&database, folder.join("bare.sql"));
        let mut rows = vec![Row { name: "pgbench, the bare two statements".into(), load: bare, samples: Vec::new() }];
        rows.push(Row::alone("PostgreSQL, claim + complete", &["postgres-claims", &url, "32"]));
        rows.push(Row::alone("PostgreSQL, replays", &["postgres-look-ups", &url, "32"]));
        self.measure("PostgreSQL, 32 clients", rows, helper, 0)
    }

    /// Each row has its turn in each round.
    fn measure(&self, title: &str, mut rows: Vec<Row<'_>>, helper: &Path, base: usize) -> Result<()> {
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()));
        let mut index = 0;
        rows.retain(|row| {
            index += 1;
            index == base + 1 || wanted(&row.name)
        });
        if rows.len() == 1 && !wanted(&rows[0].name) {
            return Ok(());
        }
        for round in 0..self.rounds {
            for row in &mut rows {
                eprint!("\r{title}: round {} of {}, {:<32}", round + 1, self.rounds, row.name);
                let sample = match &row.load {
                    Load::Http(server, kind) => self.http(server, kind, helper)?,
                    Load::Alone(words) => self.alone(words, helper)?,
                    Load::Bare(database, script) => database.bare(script, "32", self.millis, u32::from(round))?,
                };
                row.samples.push(sample);
            }
        }
        eprint!("\r{:<78}\r", "");
        let figures: Vec<Figures> = rows.iter().map(|row| Figures::of(&row.samples, &rows[base].samples)).collect();
        table::print(title, rows.iter().map(|row| row.name.as_str()).zip(&figures));
        Ok(())
    }

    fn http(&self, server: &Child, kind: &str, helper: &Path) -> Result<Sample> {
        let (to, connections) = (server.addr().to_string(), self.connections.to_string());
        let before = server.processor_seconds()?;
        let sample = Sample::of(helper, &["load", &to, kind, &connections, &self.millis.to_string()])?;
        let spent = server.processor_seconds()? - before;
        Ok(sample.spent(spent, f64::from(self.millis) / 1000.0))
    }

    fn alone(&self, words: &[String], helper: &Path) -> Result<Sample> {
        let millis = self.millis.to_string();
        let words: Vec<&str> = words.iter().map(String::as_str).chain([millis.as_str()]).collect();
        Sample::of(helper, &words)
    }
}
