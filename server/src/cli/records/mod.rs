//! `samekey records`: what operators do to records.

mod erase;

use std::io::Write;
use std::process::ExitCode;

/// What `records` takes.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Records {
    /// Remove what is stored of one actor; that their keys were used stays
    Erase(erase::EraseArgs),
}

pub(crate) fn run(records: &Records, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match records {
        Records::Erase(args) => erase::run(args, out),
    }
}
