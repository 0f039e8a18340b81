//! Build, demo, test: one entry point for people and CI.
//!
//! `cargo demo` shows what samekey does; `cargo verify` says whether this tree is sound.

mod bench;
mod campaign;
mod client;
mod demo;
mod dist;
#[path = "../../tests/support/postgres.rs"]
#[allow(dead_code, reason = "the suites' own, of which this uses a part")]
mod postgres;
mod run;
mod soak;
mod tools;
mod turnover;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the samekey repository.
///
/// `cargo demo` and `cargo verify` are short for the two commands people need.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Bench(bench::Bench),
    Campaign(campaign::Campaign),
    Client(client::Client),
    Demo(demo::Demo),
    Dist(dist::Dist),
    Soak(soak::Soak),
    Turnover(turnover::Turnover),
    Verify(verify::Verify),
}

fn main() -> ExitCode {
    let done = match Xtask::parse().task {
        Task::Bench(bench) => bench.run(),
        Task::Campaign(campaign) => campaign.run(),
        Task::Client(client) => client.run(),
        Task::Demo(demo) => demo.run(),
        Task::Dist(dist) => dist.run(),
        Task::Soak(soak) => soak.run(),
        Task::Turnover(turnover) => turnover.run(),
        Task::Verify(verify) => verify.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
