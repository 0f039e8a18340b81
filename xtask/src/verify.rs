//! `cargo verify`: everything CI checks, in the order in which it fails soonest.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::postgres::Postgres;
use crate::run::{answers, cargo, must, must_keeping, target_dir};
use crate::{client, tools};

/// Check the whole repository: format, lints, documentation, builds, tests.
///
/// Installs what a fresh machine lacks, then runs each step and stops at the first that fails.
/// The last lines are a table of steps and times, and the test runner's own summary.
#[derive(clap::Args)]
pub struct Verify {
    /// List the steps without running them.
    #[arg(long)]
    list: bool,

    /// Run only the steps whose name contains this; may stand several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// How a step ended that did not fail.
pub struct Outcome {
    skipped: bool,
    note: String,
    /// The test runner's summary, repeated as the very last line.
    summary: Option<String>,
}

impl Outcome {
    pub fn done() -> Self {
        Self::note("")
    }

    pub fn note(note: impl Into<String>) -> Self {
        Self { skipped: false, note: note.into(), summary: None }
    }

    pub fn skipped(why: impl Into<String>) -> Self {
        Self { skipped: true, note: why.into(), summary: None }
    }
}

type Step = (&'static str, fn() -> Result<Outcome>);

/// One row per step; a later suite is one more row.
const STEPS: &[Step] = &[
    ("system packages", tools::system_packages),
    ("WASM target", tools::wasm_target),
    ("format", || passes(&["fmt", "--all", "--check"])),
    ("clippy", || passes(&["clippy", ALL[0], ALL[1], ALL[2], "--all-targets", "--", "-D", "warnings"])),
    ("core on WASM", || passes(&["build", "-p", "samekey-core", "--target", "wasm32-unknown-unknown"])),
    ("library without the binary", || passes(&["check", "-p", "samekey"])),
    ("documentation", documentation),
    ("licences and sources", licences),
    ("alert rules", alert_rules),
    ("binary", binary),
    ("peers' packages", tools::peers),
    ("schemathesis", tools::schemathesis),
    ("npm package", client::package),
    ("npm package, packed", client::packaging),
    ("npm package, real server", client::against_the_server),
    ("demo", client::demo),
    ("tests", tests),
    ("documentation's examples", examples),
];

/// The same selection everywhere, so that cargo settles on one set of features and builds
/// dependencies once.
const ALL: [&str; 3] = ["--workspace", "--features", "samekey/demo,samekey/testing"];

impl Verify {
    pub fn run(self) -> Result<()> {
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()));
        let steps: Vec<&Step> = STEPS.iter().filter(|(name, _)| wanted(name)).collect();
        if steps.is_empty() {
            bail!("no step is named like that; `cargo verify --list` shows them");
        }
        if self.list {
            for (name, _) in steps {
                println!("{name}");
            }
            return Ok(());
        }

        let began = Instant::now();
        let mut rows = Vec::new();
        let mut summary = None;
        for (index, (name, run)) in steps.iter().enumerate() {
            eprintln!("\n=== {}/{} {name}", index + 1, steps.len());
            let step_began = Instant::now();
            let outcome = match run() {
                Ok(outcome) => outcome,
                Err(error) => {
                    print_table(&rows, began.elapsed());
                    bail!("verify failed at \"{name}\" after {}: {error:#}", seconds(step_began.elapsed()));
                }
            };
            let took = step_began.elapsed();
            if outcome.skipped {
                eprintln!("=== {name}: SKIPPED, {}", outcome.note);
            } else {
                eprintln!("=== {name}: ok, {}", seconds(took));
            }
            if outcome.summary.is_some() {
                summary.clone_from(&outcome.summary);
            }
            rows.push((*name, took, outcome));
        }
        print_table(&rows, began.elapsed());
        if let Some(summary) = summary {
            println!("{summary}");
        }
        Ok(())
    }
}

fn passes(arguments: &[&str]) -> Result<Outcome> {
    must(&mut cargo(arguments))?;
    Ok(Outcome::done())
}

fn documentation() -> Result<Outcome> {
    let mut doc = cargo(&["doc", "--no-deps", ALL[0], ALL[1], ALL[2]]);
    must(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::done())
}

/// The tests read the rules, too; this is Prometheus itself.
fn alert_rules() -> Result<Outcome> {
    if !answers(Command::new("promtool").arg("--version")) {
        return Ok(Outcome::skipped("promtool is not installed"));
    }
    must(Command::new("promtool").args(["check", "rules", "server/ops/samekey.rules.yml"]))?;
    Ok(Outcome::done())
}

fn licences() -> Result<Outcome> {
    if !answers(&mut cargo(&["deny", "--version"])) {
        return Ok(Outcome::skipped("cargo-deny is not installed"));
    }
    passes(&["deny", ALL[0], "check", "bans", "licenses", "sources"])
}

fn binary() -> Result<Outcome> {
    passes(&["build", ALL[0], ALL[1], ALL[2], "--bin", "samekey"])
}

fn tests() -> Result<Outcome> {
    let nextest = answers(&mut cargo(&["nextest", "--version"]));
    let mut run = if nextest {
        cargo(&["nextest", "run", ALL[0], ALL[1], ALL[2], "--no-fail-fast", "--no-tests", "pass"])
    } else {
        cargo(&["test", ALL[0], ALL[1], ALL[2], "--lib", "--bins", "--tests", "--no-fail-fast"])
    };
    run.env("CARGO_TERM_COLOR", "never");
    // Pinned Python packages lie here; see tools.rs.
    run.env("PYTHONPATH", tools::python_packages()?);
    // One for all suites, so that not each case has to make one.
    let database = Postgres::start(&["fsync=off"]);
    if let Some(database) = &database {
        run.env("SAMEKEY_TEST_POSTGRES", database.url("").trim_end_matches('/'));
    }
    // Built now, so that no suite tests an older one, and each need not ask cargo again.
    binary()?;
    run.env("SAMEKEY_BIN", target_dir()?.join("debug/samekey"));
    let lines = must_keeping(&mut run, is_summary)?;
    drop(database);
    let summary = match lines.last() {
        Some(line) if nextest => line.clone(),
        _ => format!("Summary: {}", added_up(&lines)),
    };
    // A filter that matches nothing, or a suite that fell out of Cargo.toml, looks like success.
    if !summary.contains(" passed") || summary.contains(" 0 passed") {
        bail!("the test runner ended well but ran no test");
    }
    let note = summary.split_once("run: ").map_or(summary.as_str(), |(_, counts)| counts).to_owned();
    Ok(Outcome { skipped: false, note, summary: Some(summary) })
}

fn examples() -> Result<Outcome> {
    let mut run = cargo(&["test", ALL[0], ALL[1], ALL[2], "--doc"]);
    run.env("CARGO_TERM_COLOR", "never");
    let lines = must_keeping(&mut run, is_summary)?;
    Ok(Outcome::note(added_up(&lines)))
}

/// nextest: `Summary [ 0.1s] 12 tests run: 12 passed, 0 skipped`; libtest: `test result: ok. 3 passed; …`.
fn is_summary(line: &str) -> bool {
    (line.starts_with("Summary") || line.starts_with("test result:")) && line.contains(" passed")
}

/// libtest writes one summary for each binary: add them up.
fn added_up(lines: &[String]) -> String {
    let count = |word: &str| -> u64 {
        lines
            .iter()
            .filter_map(|line| {
                let (before, _) = line.split_once(&format!(" {word}"))?;
                before.rsplit(' ').next()?.parse::<u64>().ok()
            })
            .sum()
    };
    format!("{} passed, {} failed, {} ignored", count("passed"), count("failed"), count("ignored"))
}

fn print_table(rows: &[(&str, Duration, Outcome)], total: Duration) {
    // CI wants whole lines on one stream, whatever the steps wrote to the other.
    println!();
    for (name, took, outcome) in rows {
        let time = if outcome.skipped { "skipped".to_owned() } else { seconds(*took) };
        println!("{name:<28} {time:>9}  {}", outcome.note);
    }
    println!("{:<28} {:>9}", "total", seconds(total));
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}
