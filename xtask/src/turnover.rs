//! `cargo xtask turnover`: as many records expire as come.

use anyhow::Result;

use crate::run::{cargo, must};

/// Replace a million records of a store by a million others, and see that claims are hardly slower and nothing grows.
#[derive(clap::Args)]
pub struct Turnover {
    /// How many live at once. A million take some five minutes and 1 GB of disk.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=20_000_000))]
    records: u64,
}

impl Turnover {
    pub fn run(self) -> Result<()> {
        let mut test = cargo(&["test", "--release", "--workspace", "--features", "samekey/cli"]);
        test.args(["--test", "turnover", "--", "--nocapture"]);
        must(test.env("SAMEKEY_TURNOVER_RECORDS", self.records.to_string()))
    }
}
