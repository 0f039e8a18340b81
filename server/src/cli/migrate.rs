//! `samekey migrate`: what is in a file goes into a PostgreSQL database.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use super::store::StoreUrl;
use crate::store;

/// What `migrate` takes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file is locked against writes meanwhile: stop the server first, and start it with the new store afterwards. An \
interrupted migration is started again with the same words and goes on where it was. In the end every row is \
compared; until then no server opens the database.")]
pub(crate) struct MigrateArgs {
    /// The store as it is, sqlite:PATH
    #[arg(long, value_name = "STORE")]
    from: StoreUrl,

    /// The database, postgres://USER@HOST/DATABASE, empty or begun by this command
    #[arg(long, env = "SAMEKEY_STORE", value_name = "STORE", hide_env_values = true)]
    to: StoreUrl,
}

pub(crate) async fn run(args: &MigrateArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (StoreUrl::Sqlite(from), StoreUrl::Postgres(to)) = (&args.from, &args.to) else {
        bail!("a store goes from a file into a database: --from sqlite:PATH --to postgres://…");
    };
    let imported = store::import(from, StoreUrl::postgres(to)?).await.context("nothing is lost; start it again")?;
    writeln!(
        out,
        "{} records are in {}, each equal to that in {}",
        imported.records,
        args.to.place(),
        args.from.place()
    )?;
    if imported.there_before > 0 {
        writeln!(out, "{} of them were there from a run before", imported.there_before)?;
    }
    writeln!(out, "start the server with --store and the database, and put the file aside")?;
    Ok(ExitCode::SUCCESS)
}
