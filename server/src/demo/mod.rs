//! What `samekey demo` shows: a service whose network and provider can be broken on purpose.
//!
//! ```text
//! browser ─ network ─ samekey's layer ─ tickets ┬─ a row, by run_once in the same database
//!              │                                └─ a notification, through the journal ─ provider (a server of its own)
//!              └ loses requests and answers, sends twice          loses answers, dies after the effect
//! ```
//!
//! Field-service tickets: `POST /api/tickets` writes one row and tells one external system. The same route without a
//! key is the service as it would be without samekey. The [`switches`] break what lies around the handler, never what
//! it does.

mod desk;
mod network;
mod page;
mod provider;
mod service;
mod switches;
mod text;
mod tickets;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;

use self::provider::Provider;
use self::service::Service;
use self::switches::Switches;
pub(crate) use self::text::{Addresses, walkthrough};
use crate::observe::Exporter;

/// For how long a server that restarts, or a provider that died, is away: long enough to press a button meanwhile.
const AWAY: Duration = Duration::from_secs(2);

/// Where it listens and what it keeps.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) provider: SocketAddr,
    pub(crate) store: PathBuf,
}

/// Serves until told to stop. `ready` is told where everything is, once it listens.
pub(crate) async fn run(
    places: Places,
    exporter: Exporter,
    ready: impl FnOnce(&Addresses) -> anyhow::Result<()>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let bind = async |address: SocketAddr, flag: &str| {
        TcpListener::bind(address)
            .await
            .with_context(|| format!("{flag} {address} cannot be listened on; try {flag} 127.0.0.1:0"))
    };
    let switches = Arc::new(Switches::default());
    let provider = bind(places.provider, "--provider").await?;
    let (mut public, mut admin) = (bind(places.listen, "--listen").await?, bind(places.admin, "--admin").await?);
    let provider_address = provider.local_addr()?;
    let (public_address, admin_address) = (public.local_addr()?, admin.local_addr()?);
    let provider = Provider::start(provider, Arc::clone(&switches))?;
    let tended = tokio::spawn(exporter.clone().tend());

    let mut stop = pin!(stop);
    let mut ready = Some(ready);
    loop {
        let service = Service::open(&places.store, &provider, &switches, &exporter, [public, admin]).await?;
        if let Some(ready) = ready.take() {
            let token = service.token()?;
            ready(&Addresses { samekey: public_address, admin: admin_address, provider: provider_address, token })?;
        }
        let restart = tokio::select! {
            () = switches.restart_asked() => true,
            () = &mut stop => false,
        };
        service.close().await;
        if !restart {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(AWAY) => {}
            () = &mut stop => break,
        }
        (public, admin) = (bind(public_address, "--listen").await?, bind(admin_address, "--admin").await?);
        switches.note("the server is back");
    }
    tended.abort();
    provider.close();
    Ok(())
}
