//! `samekey serve`: the proxy between two listeners, from the first line to the last record.

use std::future::Future;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use http::{HeaderName, Uri};
use ipnet::IpNet;
use tokio::net::TcpListener;

use super::logs::LogArgs;
use super::settings::{Defaults, ServerLimits, duration};
use crate::layer::{ActorSource, Automatic, IdempotencyLayer, Trusted};
use crate::proxy::admin::{self, Phase};
use crate::proxy::forward::{Forward, ForwardConfig};
use crate::proxy::listen;
use crate::store::{SqliteOptions, Store};

/// What `serve` takes.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    /// The service behind, for instance http://127.0.0.1:3000
    #[arg(long, env = "SAMEKEY_UPSTREAM", value_name = "URL")]
    upstream: Uri,

    /// Certificates in PEM form that a https upstream is checked against, in place of the system's
    #[arg(long, env = "SAMEKEY_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,

    /// Where clients connect
    #[arg(long, env = "SAMEKEY_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8787")]
    listen: SocketAddr,

    /// Where /healthz and /readyz answer
    #[arg(long, env = "SAMEKEY_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:8788")]
    admin: SocketAddr,

    /// Where keys and answers are kept: a file on a disk of this machine
    #[arg(long, env = "SAMEKEY_STORE", value_name = "STORE", default_value = "sqlite:samekey.db")]
    store: StoreUrl,

    /// Allow the SQLite store under Kubernetes, where a second pod would have a second memory
    #[arg(long, env = "SAMEKEY_SINGLE_HOST")]
    single_host: bool,

    /// Who asks: `credentials` (a keyed hash of Authorization) or `header:NAME` (set by a proxy in front)
    #[arg(long, env = "SAMEKEY_ACTOR", value_name = "KIND", default_value = "credentials")]
    actor: ActorKind,

    /// Addresses and networks whose actor header and Forwarded are believed, for instance 10.0.0.0/8,::1 [default: loopback]
    #[arg(long, env = "SAMEKEY_TRUSTED_PROXIES", value_name = "NETWORK", value_delimiter = ',', value_parser = network)]
    trusted_proxies: Vec<IpNet>,

    /// How long a connection to the service may have been idle and still be used for a request with a key; must be
    /// shorter than the service's own keep-alive time
    #[arg(long, env = "SAMEKEY_UPSTREAM_IDLE", value_name = "TIME", value_parser = duration, default_value = "2s")]
    upstream_idle: Duration,

    /// How long a connection to the service may take to be made
    #[arg(long, env = "SAMEKEY_CONNECT_TIMEOUT", value_name = "TIME", value_parser = duration, default_value = "5s")]
    connect_timeout: Duration,

    /// How long running requests may go on after SIGTERM; longer than the timeout, or outcomes become uncertain
    #[arg(long, env = "SAMEKEY_DRAIN", value_name = "TIME", value_parser = duration, default_value = "75s")]
    drain: Duration,

    #[command(flatten)]
    logs: LogArgs,

    #[command(flatten)]
    defaults: Defaults,

    #[command(flatten)]
    limits: ServerLimits,
}

const AFTER_HELP: &str = "\
Every flag can be set by its environment variable; a flag wins.

Covered are POST and PATCH requests with the header Idempotency-Key. All others pass untouched.

  samekey serve --upstream http://127.0.0.1:3000
  curl -i http://127.0.0.1:8787/orders -H 'Authorization: Bearer t' -H 'Idempotency-Key: 7f9c2ba4-e88f-4c37-9e3c-5a8f1c2d3e4f' \\
       -H 'Content-Type: application/json' -d '{\"sku\":\"tea\"}'";

/// `sqlite:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoreUrl {
    path: PathBuf,
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self { path: path.trim_start_matches("//").into() }),
            Some(("postgres" | "postgresql", _)) => Err("PostgreSQL is not supported yet; write sqlite:PATH".into()),
            _ => Err(format!("{text} names no store; write sqlite:PATH, for instance sqlite:samekey.db")),
        }
    }
}

/// `credentials`, `header:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ActorKind {
    Credentials,
    Header(HeaderName),
}

impl FromStr for ActorKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "credentials" => Ok(Self::Credentials),
            Some(("header", name)) => {
                let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is no header name"))?;
                match name.as_str() {
                    "authorization" => Err("for Authorization use `credentials`, which keeps only a hash".into()),
                    "cookie" | "idempotency-key" => Err(format!("{name} says nothing sure about who asks")),
                    _ => Ok(Self::Header(name)),
                }
            }
            _ => Err(format!("{text} is no kind of actor; write credentials or header:NAME")),
        }
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let upstream = args.upstream.clone();
    run_with(args, announce(upstream)).await
}

/// The same, with another announcement.
pub(crate) async fn run_with(
    args: ServeArgs,
    ready: impl FnOnce(&Server) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    args.logs.install();
    Server::start(args).await?.run(ready, shutdown_signal()?).await
}

fn announce(upstream: Uri) -> impl FnOnce(&Server) -> anyhow::Result<()> {
    move |server| {
        let (public, admin) = server.addresses()?;
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "samekey {} listening http://{public} -> {upstream}, admin http://{admin}",
            env!("CARGO_PKG_VERSION")
        )?;
        writeln!(out, "{}", server.summary)?;
        Ok(out.flush()?)
    }
}

/// Everything that listens, before the first request.
pub(crate) struct Server {
    public: TcpListener,
    admin: TcpListener,
    store: Store,
    layer: IdempotencyLayer,
    forward: Forward,
    drain: Duration,
    summary: String,
}

impl Server {
    /// Checks the settings, opens the store and binds both listeners.
    pub(crate) async fn start(args: ServeArgs) -> anyhow::Result<Self> {
        let policy = args.defaults.policy();
        policy.check().context("the settings do not fit together")?;
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && !args.single_host {
            bail!(
                "an SQLite store belongs to one pod: with two, a retry that meets the other one would run again. \
                 Set --single-host if there is only ever one replica, with the Recreate strategy and a volume of its own"
            );
        }
        let forward = Forward::new(ForwardConfig {
            upstream: args.upstream.clone(),
            upstream_ca: args.upstream_ca.clone(),
            trusted: trusted(&args.trusted_proxies),
            upstream_idle: args.upstream_idle,
            connect_timeout: args.connect_timeout,
        })
        .context("--upstream")?;
        let store = Store::open(SqliteOptions {
            queue_capacity: args.limits.queue,
            min_free_bytes: args.limits.min_free as u64,
            ..SqliteOptions::new(&args.store.path)
        })
        .await
        .context("the store cannot be used")?;
        let actor = match &args.actor {
            ActorKind::Credentials => ActorSource::credentials(),
            ActorKind::Header(name) => ActorSource::header(name.clone(), trusted(&args.trusted_proxies)),
        };
        let summary = format!(
            "store sqlite:{} (1 host only)   covered: {}   actor: {actor:?}   replay {}, remembered {}",
            args.store.path.display(),
            match policy.key {
                samekey_core::KeyRule::Required => "every POST, PATCH",
                _ => "POST, PATCH that carry Idempotency-Key",
            },
            humantime::format_duration(policy.retention),
            humantime::format_duration(policy.remember),
        );
        let layer = IdempotencyLayer::new(store.clone())
            .actor_source(actor)
            .limits(args.limits.limits())
            .resolve(Automatic::new(policy)?);
        let bind = async |address: SocketAddr, flag: &str| {
            TcpListener::bind(address).await.with_context(|| format!("{flag} {address} cannot be listened on"))
        };
        Ok(Self {
            public: bind(args.listen, "--listen").await?,
            admin: bind(args.admin, "--admin").await?,
            store,
            layer,
            forward,
            drain: args.drain,
            summary,
        })
    }

    /// Where clients and operators connect.
    pub(crate) fn addresses(&self) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        Ok((self.public.local_addr()?, self.admin.local_addr()?))
    }

    /// Serves until the signal, then lets everything that runs come to its end.
    pub(crate) async fn run(
        self,
        ready: impl FnOnce(&Self) -> anyhow::Result<()>,
        signal: impl Future<Output = ()>,
    ) -> anyhow::Result<ExitCode> {
        ready(&self)?;
        let phase = Phase::default();
        let admin = tokio::spawn(admin::serve(self.admin, self.store.clone(), phase.clone()));
        let tunnels = self.forward.tunnels();
        let service = tower::Layer::layer(&self.layer, self.forward);
        let connections = listen::serve(self.public, service, signal).await;
        phase.drain();
        tracing::info!(event = "draining", "no new connections; what runs comes to its end");
        let until = tokio::time::Instant::now() + self.drain;
        let drained = tokio::time::timeout_at(until, async {
            connections.shutdown().await;
            self.layer.drain(self.drain).await;
        })
        .await
        .is_ok();
        // A tunnel has no end of its own and no outcome to lose: closing it is no failure.
        if tokio::time::timeout_at(until, tunnels.ended()).await.is_err() {
            tracing::info!(event = "tunnels_closed", left = tunnels.close().await, "the drain is over");
        }
        if !drained {
            tracing::warn!(event = "drain_timeout", "requests still run: their outcomes become uncertain");
        }
        admin.abort();
        self.store.close().await;
        tracing::info!(event = "stopped");
        Ok(if drained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn trusted(networks: &[IpNet]) -> Trusted {
    if networks.is_empty() { Trusted::Loopback } else { Trusted::Networks(networks.to_vec()) }
}

/// An address is a network of one.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse())
        .map_err(|_| format!("{text} is no address or network; write for instance 10.0.0.0/8"))
}

/// Resolves at the first SIGTERM or SIGINT; the second one ends the process at once.
pub(crate) fn shutdown_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let mut next = async move || tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} };
        next().await;
        tokio::spawn(async move {
            next().await;
            tracing::warn!(event = "stopped", "second signal: ending at once");
            std::process::exit(130);
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_say_what_to_write() {
        for (error, hint) in [
            ("samekey.db".parse::<StoreUrl>().unwrap_err(), "sqlite:PATH"),
            ("postgres://x".parse::<StoreUrl>().unwrap_err(), "sqlite:PATH"),
            ("cookie:sid".parse::<ActorKind>().unwrap_err(), "header:NAME"),
            ("header:authorization".parse::<ActorKind>().unwrap_err(), "credentials"),
            ("header:no such".parse::<ActorKind>().unwrap_err(), "no header name"),
        ] {
            assert!(error.contains(hint), "{error}");
        }
    }
}
