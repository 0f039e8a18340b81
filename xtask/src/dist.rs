//! `cargo xtask dist`: the one file that people install, with everything in it.

use std::fs;

use anyhow::{Context, Result};

use crate::client;
use crate::run::{cargo, must, target_dir};

/// Build the optimised binary with the demo's page and the browser client in it, as target/dist/samekey.
#[derive(clap::Args)]
pub struct Dist {}

impl Dist {
    pub fn run(self) -> Result<()> {
        client::make()?;
        must(&mut cargo(&["build", "--release", "--package", "samekey", "--features", "demo", "--bin", "samekey"]))?;
        let folder = target_dir()?.join("dist");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join("samekey");
        let built = target_dir()?.join("release/samekey");
        let bytes = fs::copy(&built, &file).with_context(|| format!("cannot copy {}", built.display()))?;
        println!("{}: {:.1} MB, needs no other file; try `samekey demo`", file.display(), bytes as f64 / 1e6);
        Ok(())
    }
}
