//! What a new configuration does to records and to a running server.

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};

use super::config::{self, ConfigErrors, Loaded, Source};
use super::probes::Probes;
use crate::layer::{Operations, Resolve, register};
use crate::observe;
use crate::store::Store;

/// Refuses to go on where a client may still ask for a command that no operation answers for: its retry would find
/// nothing and run again.
pub(super) async fn refuse_unnamed(store: &Store, operations: &Operations) -> anyhow::Result<()> {
    let unnamed = store.operations_in_use(operations.names()).await?;
    if unnamed.is_empty() {
        return Ok(());
    }
    let list = unnamed.iter().map(|(name, count)| format!("\n  {name}: {count}")).collect::<String>();
    let example = &unnamed[0].0;
    bail!(
        "the store holds live records of operations that no configured operation names:{list}\n\
         Retries of these would not find their answers. Name each one again, or write it into the aliases of the \
         operation that took its place: aliases = [\"{example}\"]. \
         With --accept-unnamed-records the server starts as it is, and refuses these keys without running them"
    )
}

/// Reads `[defaults]` and `[[operation]]` anew at each SIGHUP, all or nothing.
pub(super) fn on_hangup(
    source: &Source,
    loaded: &Loaded,
    operations: &Operations,
    store: &Store,
    mut checks: JoinSet<()>,
) -> anyhow::Result<JoinHandle<()>> {
    let mut hangups = signal(SignalKind::hangup())?;
    let (source, operations, store) = (source.clone(), operations.clone(), store.clone());
    let (args, fixed) = (loaded.args.clone(), loaded.fixed.clone());
    Ok(tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let read = match config::load(&source, Some(&args.server)) {
                Ok(read) if !args.accept_unnamed_records => refuse_unnamed(&store, &read.table).await.map(|()| read),
                read => read,
            };
            let read = read.and_then(|read| Ok((Probes::new(&read, &args)?, read)));
            let (probes, read) = match read {
                Ok(read) => read,
                Err(error) => {
                    kept(&error);
                    continue;
                }
            };
            for (key, value) in &read.fixed {
                if fixed.get(key) != Some(value) {
                    tracing::warn!(event = "config", key, "{key} changed: it holds from the next start on");
                }
            }
            for key in fixed.keys().filter(|key| !read.fixed.contains_key(*key)) {
                tracing::warn!(event = "config", key, "{key} was taken out: it holds until the next start");
            }
            // What is asked whom holds before what is to be asked at all.
            checks.shutdown().await;
            checks = probes.install(&store);
            operations.replace(&read.table);
            store.policies().replace(|policies| register(policies, &operations.operations()));
            observe::reloaded(true);
            tracing::info!(event = "config", operations = read.operations.len(), "the operations were read anew");
        }
    }))
}

fn kept(error: &anyhow::Error) {
    observe::reloaded(false);
    match error.downcast_ref::<ConfigErrors>() {
        Some(errors) => {
            for line in errors.lines() {
                tracing::error!(event = "config", "{line}");
            }
        }
        None => tracing::error!(event = "config", "{error:#}"),
    }
    tracing::error!(event = "config", "the configuration was not read anew: the operations stay as they were");
}
