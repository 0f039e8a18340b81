//! `samekey check`: what the settings come to.
use std::io::Write;
use std::process::ExitCode;

use super::config::{self, Source};
use super::serve::ServeArgs;

/// What `check` takes: all that `serve` takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,

    /// Warnings are errors, too
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    serve: Box<ServeArgs>,
}

pub(crate) fn run(args: &CheckArgs, source: &Source, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let loaded = config::load(source, None)?;
    let _ = (args.json, args.strict, out, &args.serve, loaded);
    Ok(ExitCode::SUCCESS)
}
