//! `samekey demo`: a service that comes with it, in a folder that goes with it.

use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::logs::{LogArgs, LogFormat};
use crate::demo::{self, Addresses, Places, walkthrough};
use crate::observe::Exporter;

/// Start a service with samekey in it, a page to break its network, and print `curl` lines to try.
///
/// Everything is kept in a temporary folder and removed at the end.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Where the page and the service are.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8787")]
    listen: SocketAddr,

    /// Where the operator's page is.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8788")]
    admin: SocketAddr,

    /// Where the external system listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8789")]
    provider: SocketAddr,
}

/// Serves until told to stop; then the temporary folder goes.
///
/// # Errors
/// If an address is taken, or the folder cannot be made.
pub(crate) async fn run(
    args: DemoArgs,
    ready: impl FnOnce(&str) -> Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    // What goes wrong here goes wrong on purpose, and the page tells it.
    LogArgs { log: LogFormat::Text, log_level: "error".into() }.install();
    let folder = Folder::new()?;
    let DemoArgs { listen, admin, provider } = args;
    let places = Places { listen, admin, provider, store: folder.0.join("samekey.db") };
    demo::run(places, Exporter::install()?, |addresses: &Addresses| ready(&walkthrough(addresses)), stop).await
}

/// A folder of this run's own, readable by nobody else.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("samekey-demo-{}", std::process::id()));
        // Left over from a run with the same number that was killed.
        remove(&path);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    // What cannot be removed is small and lies where such things lie.
    let _ = fs::remove_dir_all(folder);
}
