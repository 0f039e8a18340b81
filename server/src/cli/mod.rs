//! The command line: what it takes, and which function does it.

mod actor;
mod backup;
mod check;
mod config;
mod demo;
mod fingerprint;
mod logs;
mod migrate;
mod probes;
mod records;
mod reload;
mod serve;
mod settings;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub(crate) use self::settings::duration;

/// Makes a POST safe to retry: one intent, same key, one effect.
#[derive(Debug, Parser)]
#[command(name = "samekey", version, propagate_version = true, max_term_width = 100, args_override_self = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Start here:
  samekey demo                                       see what it does, in a browser or with curl
  samekey serve --upstream http://127.0.0.1:3000     put it in front of your service
Then send each POST with the header `Idempotency-Key: <a UUID per intent>`, and send it again when in doubt.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Put samekey in front of a service: a reverse proxy with one effect per key
    Serve(Box<serve::ServeArgs>),
    /// Show what the settings come to, operation by operation, and what to think about
    Check(Box<check::CheckArgs>),
    /// Start a service with samekey in it, a page to break its network, and print curl lines to try
    Demo(demo::DemoArgs),
    /// Copy the store into a new file, while a server uses it
    Backup(backup::BackupArgs),
    /// Make a new store of a backup; keys of which the backup cannot know do not run
    Restore(backup::RestoreArgs),
    /// Move what is in a file into a PostgreSQL database, for many hosts
    Migrate(migrate::MigrateArgs),
    /// What operators do to records
    #[command(subcommand)]
    Records(Box<records::Records>),
    /// Show what a request is bound to: its fingerprint, its canonical form, or what tells two payloads apart
    Fingerprint(fingerprint::Args),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(_) => runtime().and_then(|runtime| runtime.block_on(serve::run(config::Source::of_process()))),
        Command::Check(args) => check::run(&args, &config::Source::of_process(), &mut std::io::stdout().lock()),
        Command::Backup(args) => backup::backup(&args, &mut std::io::stdout().lock()),
        Command::Restore(args) => backup::restore(&args, &mut std::io::stdout().lock()),
        Command::Migrate(args) => {
            runtime().and_then(|runtime| runtime.block_on(migrate::run(&args, &mut std::io::stdout())))
        }
        Command::Records(args) => {
            runtime().and_then(|runtime| runtime.block_on(records::run(*args, &mut std::io::stdout().lock())))
        }
        Command::Fingerprint(args) => fingerprint::run(&args, &mut std::io::stdout().lock()),
        Command::Demo(args) => runtime().and_then(|runtime| runtime.block_on(show(args))),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // One line per cause, the first says what failed: nobody should need a backtrace for a wrong setting.
            let mut text = format!("samekey: {error}");
            for cause in error.chain().skip(1) {
                text.push_str(&format!("\n  because: {cause}"));
            }
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Shows until a signal comes.
async fn show(args: demo::DemoArgs) -> anyhow::Result<ExitCode> {
    let welcome = |text: &str| {
        let mut out = std::io::stdout().lock();
        std::io::Write::write_all(&mut out, text.as_bytes())?;
        Ok(std::io::Write::flush(&mut out)?)
    };
    demo::run(args, welcome, serve::shutdown_signal()?).await?;
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
