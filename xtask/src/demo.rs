//! `cargo demo`: build the binary, then become `samekey demo`.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};

use crate::client;
use crate::run::{cargo, must, target_dir};

/// Build samekey and its browser client, and start the demo: a service whose network you may break, in a browser or
/// with `curl`.
///
/// Builds quickly and unoptimised unless you say `--release`. Ctrl-C ends it; nothing is left behind.
#[derive(clap::Args)]
pub struct Demo {
    /// Build optimised: slower to start, the speed you would get in production.
    #[arg(long)]
    release: bool,

    /// Passed on to `samekey demo`; `cargo demo -- --help` lists what it takes.
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Demo {
    pub fn run(self) -> Result<()> {
        client::make().context("the demo's page needs its client, and that needs node and npm")?;
        // The whole workspace decides the features, as in `verify`, so that neither command makes
        // the other build everything again.
        let mut build = cargo(&["build", "--workspace", "--features", "samekey/demo", "--bin", "samekey"]);
        let profile = if self.release {
            build.arg("--release");
            "release"
        } else {
            "debug"
        };
        must(&mut build)?;

        let binary = target_dir()?.join(profile).join("samekey");
        let error = Command::new(&binary).arg("demo").args(self.arguments).exec();
        Err(error).with_context(|| format!("cannot start {}", binary.display()))
    }
}
