//! The probes of a configuration: made, checked, and given to the store.

use std::sync::Arc;

use anyhow::Context;
use samekey_core::claim::backoff;
use tokio::task::JoinSet;

use super::config::Loaded;
use super::serve::ServeArgs;
use crate::probe::Probe;
use crate::proxy::probe::{HttpProbe, Surroundings};
use crate::store::Store;

/// By the names of their operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes(Vec<(String, Arc<HttpProbe>)>);

impl Probes {
    /// Makes them, and asks nobody. `args` are those that the server runs with.
    pub(super) fn new(loaded: &Loaded, args: &ServeArgs) -> anyhow::Result<Self> {
        let upstream = args.upstream.as_ref();
        let mut probes = Vec::new();
        for operation in &loaded.operations {
            let Some(settings) = loaded.probes.get(operation.policy.operation.as_ref()) else { continue };
            let around = Surroundings {
                ca: args.upstream_ca.as_deref(),
                key_header: args.server.key_header.clone(),
                names_actor: args.actor.names_callers(),
                max_response_bytes: operation.policy.max_response_bytes,
            };
            let name = operation.policy.operation.to_string();
            let made =
                settings.place.uri(upstream).and_then(|url| Ok(HttpProbe::new(url, settings.table.clone(), &around)?));
            let probe = made.with_context(|| format!("the probe of {name} cannot be used"))?;
            probes.push((name, probe));
        }
        Ok(Self(probes))
    }

    /// Each with what is wrong with its answer about a key that nobody ever used.
    pub(super) async fn check(&self) -> Vec<(String, Result<String, String>)> {
        let checks = self.0.iter().map(async |(name, probe)| {
            let checked = probe.check().await.map(|()| probe.url().to_string());
            (name.clone(), checked)
        });
        futures_util::future::join_all(checks).await
    }

    /// These take the place of the store's probes. Until it is dropped, what this gives checks each of them until its
    /// answer is right, so that a wrong one is known before it is needed. The service may start after samekey.
    #[must_use = "dropping it ends the checks"]
    pub(super) fn install(self, store: &Store) -> JoinSet<()> {
        store.probes().replace(self.0.iter().map(|(name, probe)| -> (String, Probe) { (name.clone(), probe.probe()) }));
        self.0.into_iter().map(|(name, probe)| prove(name, probe)).collect()
    }
}

async fn prove(operation: String, probe: Arc<HttpProbe>) {
    let mut looks = 0;
    loop {
        match probe.check().await {
            Ok(()) => {
                tracing::info!(event = "probe_checked", operation, "the probe answers as it should");
                return;
            }
            Err(why) => {
                let again = backoff::pause(looks, u32::MAX);
                tracing::error!(
                    event = "probe_refused",
                    operation,
                    again_s = again.as_secs(),
                    help = "samekey check asks at once",
                    "the probe settles nothing before this is right: {why}"
                );
                looks += 1;
                tokio::time::sleep(again).await;
            }
        }
    }
}
