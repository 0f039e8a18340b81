//! `samekey records erase`: what is stored of an actor goes.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use samekey_core::Actor;

use crate::cli::store::{StoreArgs, StoreUrl};
use crate::layer::actor;
use crate::store;

/// What `erase` takes.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
What goes: answers, ids of results and of requests, results of finished effects of commands that ended, what operators
noted, and the actor's id, in whose place a keyed hash stands. What stays, so that no key runs a second time: the key,
the fingerprint of its payload, how it ended and with which status. It works while a server uses the store.
Backups that were made before still hold it all.")]
pub(crate) struct EraseArgs {
    /// Whose: the id as the server knows it, so what the header, the token's claim or the service's answer says
    #[arg(long, value_name = "ID", required_unless_present = "credentials_file", conflicts_with = "credentials_file")]
    actor: Option<String>,

    /// Whose, where callers are told apart by their credentials: a file with the value of Authorization, for instance
    /// `Bearer 4f2a…`; - is the standard input
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,
}

/// In a PostgreSQL database, beside the servers that use it.
async fn in_database(args: &EraseArgs, url: &str, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let store = store::Store::open(StoreUrl::postgres(url)?.unattended()).await?;
    let actor = match (&args.actor, &args.credentials_file) {
        (Some(id), _) => Actor::new(id.as_str()),
        (None, Some(from)) => actor::of_credentials(&credentials(from)?, store.secret()),
        (None, None) => bail!("say whose records: --actor ID, or --credentials-file FILE"),
    };
    let erased = store.erase(&actor).await?;
    store.close().await;
    writeln!(out, "{} records of this actor say nothing of them any more", erased.records)?;
    writeln!(out, "deleted bytes lie in dead rows until the next VACUUM, and in the WAL and backups of the server")?;
    if erased.running > 0 {
        writeln!(out, "{} commands of this actor still run: erase again when they have ended", erased.running)?;
    }
    Ok(if erased.running == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) async fn run(args: &EraseArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let file = match args.store.url()? {
        StoreUrl::Sqlite(file) => file,
        StoreUrl::Postgres(url) => return in_database(args, &url, out).await,
    };
    let actor = match (&args.actor, &args.credentials_file) {
        (Some(id), _) => Actor::new(id.as_str()),
        (None, Some(from)) => actor::of_credentials(&credentials(from)?, &store::secret_of(&file)?),
        (None, None) => bail!("say whose records: --actor ID, or --credentials-file FILE"),
    };
    let erased = store::erase(&file, &actor)?;
    match erased.records {
        0 => writeln!(out, "no record of this actor in {}", file.display())?,
        1 => writeln!(out, "1 record of this actor says nothing of them any more")?,
        many => writeln!(out, "{many} records of this actor say nothing of them any more")?,
    }
    if erased.running > 0 {
        writeln!(out, "{} commands of this actor still run: erase again when they have ended", erased.running)?;
    }
    if !erased.scrubbed {
        writeln!(
            out,
            "deleted bytes may still lie on free pages or in the WAL: erase again when no long read holds the file; a \
             file of an older samekey needs a VACUUM"
        )?;
    }
    Ok(if erased.running == 0 && erased.scrubbed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The value as requests carry it.
fn credentials(from: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if from == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).context("the standard input cannot be read")?;
    } else {
        bytes = std::fs::read(from).with_context(|| format!("--credentials-file {}", from.display()))?;
    }
    let value = bytes.trim_ascii();
    if value.is_empty() || value.contains(&b'\n') {
        bail!("--credentials-file {}: write the value of Authorization into it, one line", from.display());
    }
    Ok(value.to_owned())
}
