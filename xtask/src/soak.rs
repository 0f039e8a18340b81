//! `cargo xtask soak`: hours of traffic in the minutes you have.

use anyhow::Result;

use crate::run::{cargo, must, target_dir};

/// Send a mix of traffic through the optimised binary, and see that nothing grows.
#[derive(clap::Args)]
pub struct Soak {
    /// For how long.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=24 * 60))]
    minutes: u64,
}

impl Soak {
    pub fn run(self) -> Result<()> {
        let all = ["--release", "--workspace", "--features", "samekey/cli"];
        must(cargo(&["build"]).args(all).args(["--bin", "samekey"]))?;
        let mut test = cargo(&["test"]);
        test.args(all).args(["--test", "soak", "--", "--nocapture"]);
        test.env("SAMEKEY_BIN", target_dir()?.join("release/samekey"));
        must(test.env("SAMEKEY_SOAK_SECONDS", (self.minutes * 60).to_string()))
    }
}
