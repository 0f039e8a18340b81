//! `samekey backup` and `samekey restore`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::settings::moment;
use super::store::StoreArgs;
use crate::layer::{Resolve, register};
use crate::store::{self, Policies};

/// What `backup` takes.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
The copy is of one moment, in one file, checked and on the disk when the command ends. It holds stored answers and the
store's secret: keep it as safe as the store.")]
pub(crate) struct BackupArgs {
    /// The new file
    file: PathBuf,

    #[command(flatten)]
    store: StoreArgs,
}

/// What `restore` takes.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Stop the old server first. What it did after the backup was made is not in the copy, so from now on the store says
`outcome_uncertain` of keys that it does not know and that may be older than this moment; they never run unseen.")]
pub(crate) struct RestoreArgs {
    /// The backup
    from: PathBuf,

    #[command(flatten)]
    store: StoreArgs,
}

/// Copies the store while it is used.
pub(crate) fn backup(args: &BackupArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let from = args.store.path()?;
    let made = store::backup(&from, &args.file)?;
    let size = bytesize::ByteSize(made.bytes).display().iec();
    writeln!(out, "{} of {} in {}, {size}, checked", counted(made.records), from.display(), args.file.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a store of a backup.
pub(crate) fn restore(args: &RestoreArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let loaded = args.store.loaded()?;
    let policies = Policies::default();
    register(&policies, &loaded.table.operations());
    let to = loaded.args.store.into_file()?;
    let made = store::restore(&args.from, &to, &policies)?;
    let taken = made.taken_at.map_or("a moment that it does not say".into(), moment::shown);
    writeln!(out, "{} in {}, as of {taken}", counted(made.records), to.display())?;
    writeln!(
        out,
        "horizon {}: keys that may be older and are not known are uncertain from now on; had not ended: {}",
        moment::shown(made.horizon),
        counted(made.uncertain as u64),
    )?;
    Ok(ExitCode::SUCCESS)
}

fn counted(records: u64) -> String {
    if records == 1 { "1 record".into() } else { format!("{records} records") }
}
