//! The PostgreSQL store beside `pgbench`, which runs the bare two statements on the same tables.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::figures::Sample;
use crate::postgres::Postgres;

/// A claim and its end, as two statements by the unique index: what is left of the store without its rules.
const BARE: &str = r"\set n :n + 1
INSERT INTO idempotency_keys (actor_id, operation, idem_key, configured, payload_hash, state, attempt, holder, took_over, revision, lease_until, deadline, created_at) VALUES ('u' || :client_id, 'orders.create', 'bare-' || :run || '-' || :client_id || '-' || :n, false, repeat('f', 80), 'in_progress', 1, decode(repeat('01', 16), 'hex'), false, 1, 1, 1, 1) ON CONFLICT DO NOTHING;
UPDATE idempotency_keys SET state = 'completed', revision = 2, status_code = 201, finished_at = 1, expires_at = 9000000000000, response_headers = 'content-type: application/json', response_body = '{}' WHERE idem_key = 'bare-' || :run || '-' || :client_id || '-' || :n AND actor_id = 'u' || :client_id AND operation = 'orders.create' AND revision = 1;
";

/// A server of its own, with the store's tables.
pub struct Database(Postgres);

impl Database {
    /// `None`: it is not installed.
    pub fn start(helper: &Path, folder: &Path) -> Result<Option<Self>> {
        let Some(database) = Postgres::start(&["shared_buffers=256MB"]).map(Self) else { return Ok(None) };
        std::fs::write(folder.join("bare.sql"), BARE)?;
        // Makes the tables.
        Sample::of(helper, &["postgres-claims", &database.url(), "1", "50"])?;
        Ok(Some(database))
    }

    pub fn url(&self) -> String {
        format!("{}?sslmode=disable", self.0.url("postgres"))
    }

    /// One turn of `pgbench`.
    pub fn bare(&self, script: &Path, clients: &str, millis: u32, run: u32) -> Result<Sample> {
        let seconds = millis.div_ceil(1000).max(1).to_string();
        let text = std::fs::read_to_string(script)?;
        // Where the server's user can read it.
        let there = self.0.data().with_file_name("bare.sql");
        std::fs::write(&there, text)?;
        let mut pgbench: Command = self.0.program("pgbench");
        pgbench.args(["-n", "-M", "prepared", "-h", "127.0.0.1", "-p", &self.0.port().to_string(), "-U", "postgres"]);
        pgbench.args(["-c", clients, "-j", "2", "-T", &seconds, "-D", "n=0", "-D", &format!("run={run}"), "-f"]);
        let said =
            pgbench.arg(&there).arg("postgres").stderr(Stdio::inherit()).output().context("cannot start pgbench")?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let figure = |before: &str| -> Option<f64> {
            text.lines().find_map(|line| line.strip_prefix(before)?.split_whitespace().next()?.parse().ok())
        };
        match (figure("tps = "), figure("latency average = ")) {
            (Some(rate), Some(latency)) if said.status.success() => Ok(Sample::told(rate, latency * 1000.0)),
            _ => bail!("pgbench said {text:?}"),
        }
    }
}
