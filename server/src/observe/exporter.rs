//! The binary's recorder: everything as Prometheus text.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

use super::nothing_yet;
use super::table::{BUILD_INFO, Kind, METRICS, describe};

/// Gives out what was counted. Clones give the same.
#[derive(Clone, Debug)]
pub(crate) struct Exporter {
    handle: PrometheusHandle,
    process: Collector,
}

impl Exporter {
    /// Starts counting for the whole process; a second call gives out the same counts.
    pub(crate) fn install() -> anyhow::Result<Self> {
        static INSTALLED: OnceLock<Exporter> = OnceLock::new();
        if let Some(installed) = INSTALLED.get() {
            return Ok(installed.clone());
        }
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if let Kind::Histogram { buckets } = metric.kind {
                builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
            }
        }
        let handle = builder.install_recorder().context("metrics cannot be counted")?;
        describe();
        let process = Collector::default();
        process.describe();
        nothing_yet();
        metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION"), "fingerprint" => FINGERPRINT).set(1.0);
        Ok(INSTALLED.get_or_init(|| Self { handle, process }).clone())
    }

    /// Everything, as text. Blocks: it looks at what the system says of the process.
    pub(crate) fn render(&self) -> String {
        self.process.collect();
        self.handle.render()
    }

    /// Folds single values into their histograms, which would grow without a scrape. Ends never.
    pub(crate) async fn tend(self) {
        loop {
            tokio::time::sleep(TEND_EVERY).await;
            self.handle.run_upkeep();
        }
    }
}

/// At ten thousand requests a second this is a megabyte.
const TEND_EVERY: Duration = Duration::from_secs(5);
/// The version that fingerprints are made under.
const FINGERPRINT: &str = "fp1";
