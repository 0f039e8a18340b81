//! `cargo xtask campaign`: many servers, many clients and a database that crashes, at length.

use anyhow::Result;

use crate::run::{cargo, must, target_dir};

/// Four servers on one PostgreSQL, servers killed, the database crashed; then a migration that is interrupted twice.
///
/// `cargo verify` runs the same in small.
#[derive(clap::Args)]
pub struct Campaign {
    /// How many intents, each delivered one to five times.
    #[arg(long, default_value_t = 5000)]
    intents: u32,

    /// How many clients at the same time.
    #[arg(long, default_value_t = 200)]
    clients: u32,

    /// How many servers are killed.
    #[arg(long, default_value_t = 24)]
    kills: u32,

    /// How often the database crashes.
    #[arg(long, default_value_t = 2)]
    crashes: u32,

    /// How many records are migrated.
    #[arg(long, default_value_t = 200_000)]
    records: u32,

    /// What the dice begin with; printed by each run.
    #[arg(long)]
    seed: Option<u64>,
}

impl Campaign {
    pub fn run(self) -> Result<()> {
        let all = ["--workspace", "--features", "samekey/cli"];
        must(cargo(&["build"]).args(all).args(["--bin", "samekey"]))?;
        let mut test = cargo(&["test"]);
        test.args(all).args(["--test", "postgres", "--", "--nocapture", "--test-threads=1"]);
        test.env("SAMEKEY_BIN", target_dir()?.join("debug/samekey"));
        for (name, value) in [
            ("SAMEKEY_CAMPAIGN_INTENTS", self.intents),
            ("SAMEKEY_CAMPAIGN_CLIENTS", self.clients),
            ("SAMEKEY_CAMPAIGN_KILLS", self.kills),
            ("SAMEKEY_CAMPAIGN_CRASHES", self.crashes),
            ("SAMEKEY_MIGRATE_RECORDS", self.records),
        ] {
            test.env(name, value.to_string());
        }
        if let Some(seed) = self.seed {
            test.env("SAMEKEY_SEED", seed.to_string());
        }
        must(&mut test)
    }
}
