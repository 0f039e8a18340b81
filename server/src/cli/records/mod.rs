//! `samekey records`: what operators do to records, through a running server or on its store.

mod erase;
mod list;
mod settle;
mod show;
mod source;

use std::io::Write;
use std::process::ExitCode;

/// What `records` takes.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Records {
    /// Find records, the newest first
    List(list::ListArgs),
    /// Show how a record stands and what happened to it; never payload, key or actor
    Show(show::ShowArgs),
    /// Say how an uncertain command ended, by what you found out about it
    Settle(settle::SettleArgs),
    /// Remove what is stored of one actor; that their keys were used stays
    Erase(erase::EraseArgs),
}

pub(crate) async fn run(records: Records, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match records {
        Records::List(args) => list::run(&args, out).await,
        Records::Show(args) => show::run(&args, out).await,
        Records::Settle(args) => settle::run(&args, out).await,
        Records::Erase(args) => erase::run(&args, out).await,
    }
}
