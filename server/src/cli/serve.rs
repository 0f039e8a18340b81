//! `samekey serve`: the proxy between two listeners, from the first line to the last record.

use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use http::Uri;
use samekey_core::Timestamp;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::actor::ActorArgs;
use super::config::{self, Loaded, Source};
use super::logs::LogArgs;
use super::probes::Probes;
use super::reload::{self, refuse_unnamed};
use super::settings::{Defaults, ServerLimits, ServerWide, duration, moment};
use super::store::StoreUrl;
use crate::admin::{self, Guard, Phase, Tokens};
use crate::layer::{IdempotencyLayer, Operations, Resolve, register};
use crate::observe::Exporter;
use crate::proxy::forward::{Forward, ForwardConfig};
use crate::proxy::listen;
use crate::store::{SqliteOptions, Store, StoreError};
use crate::{DEFAULT_PREFIX, Origin, Prefix};

/// What `serve` takes.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    /// The service behind, for instance http://127.0.0.1:3000
    #[arg(long, env = "SAMEKEY_UPSTREAM", value_name = "URL", value_parser = url)]
    pub(super) upstream: Option<Uri>,

    /// A file with all of this and the operations [default: samekey.toml, if it is there]
    #[arg(long, env = "SAMEKEY_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Start although live records belong to operations that nothing names; their keys are refused, not run
    #[arg(long, env = "SAMEKEY_ACCEPT_UNNAMED_RECORDS")]
    pub(super) accept_unnamed_records: bool,

    /// Certificates in PEM form that a https upstream is checked against, in place of the system's
    #[arg(long, env = "SAMEKEY_UPSTREAM_CA", value_name = "FILE")]
    pub(super) upstream_ca: Option<PathBuf>,

    /// Where clients connect
    #[arg(long, env = "SAMEKEY_LISTEN", value_name = "ADDR", value_parser = address, default_value = "127.0.0.1:8787")]
    listen: SocketAddr,

    /// Where operators connect: /healthz and /readyz for everybody, all else with a token
    #[arg(long, env = "SAMEKEY_ADMIN", value_name = "ADDR", value_parser = address, default_value = "127.0.0.1:8788")]
    admin: SocketAddr,

    /// The tokens of the admin listener; made, for its owner only, if it is not there [default: samekey.token beside
    /// the store]
    #[arg(long, env = "SAMEKEY_ADMIN_TOKEN_FILE", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,

    /// Where keys and answers are kept: a file on a disk of this machine, sqlite:PATH, or a PostgreSQL database for
    /// many hosts, postgres://USER@HOST/DATABASE?sslmode=verify-full; a password is best given by the variable
    #[arg(
        long,
        env = "SAMEKEY_STORE",
        value_name = "STORE",
        default_value = "sqlite:samekey.db",
        hide_env_values = true
    )]
    pub(super) store: StoreUrl,

    /// The most connections to a PostgreSQL store, of each server; one more listens
    #[arg(long, env = "SAMEKEY_STORE_CONNECTIONS", value_name = "NUMBER", value_parser = connections, default_value = "8")]
    store_connections: usize,

    /// Allow the SQLite store under Kubernetes, where a second pod would have a second memory
    #[arg(long, env = "SAMEKEY_SINGLE_HOST")]
    single_host: bool,

    /// After a backup was restored by other means than `samekey restore`: the moment at which that was. Keys that may
    /// be older and are not known are uncertain then. Set once for each value
    #[arg(long, env = "SAMEKEY_HORIZON", value_name = "MOMENT", value_parser = moment::parse)]
    horizon: Option<Timestamp>,

    /// Where clients find the status of a key, the contract and the pages of the codes; /api/samekey, for instance,
    /// where only /api leads here
    #[arg(long, env = "SAMEKEY_PUBLIC_PREFIX", value_name = "PATH", default_value = DEFAULT_PREFIX)]
    public_prefix: Prefix,

    /// Origins whose scripts may send commands and read their answers, for instance https://app.example
    #[arg(
        id = "cors",
        long = "cors-origins",
        env = "SAMEKEY_CORS_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    cors_origins: Vec<Origin>,

    /// How long a connection to the service may have been idle and still be used for a request with a key; must be
    /// shorter than the service's own keep-alive time
    #[arg(long, env = "SAMEKEY_UPSTREAM_IDLE", value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub(super) upstream_idle: Duration,

    /// How long a connection to the service may take to be made
    #[arg(long, env = "SAMEKEY_CONNECT_TIMEOUT", value_name = "TIME", value_parser = duration, default_value = "5s")]
    connect_timeout: Duration,

    /// How long running requests may go on after SIGTERM; longer than the timeout, or outcomes become uncertain
    #[arg(long, env = "SAMEKEY_DRAIN", value_name = "TIME", value_parser = duration, default_value = "75s")]
    pub(super) drain: Duration,

    #[command(flatten)]
    pub(super) actor: ActorArgs,

    #[command(flatten)]
    logs: LogArgs,

    #[command(flatten)]
    pub(super) server: ServerWide,

    #[command(flatten)]
    pub(super) defaults: Defaults,

    #[command(flatten)]
    pub(super) limits: ServerLimits,
}

const AFTER_HELP: &str = "\
Every flag can be set by its environment variable, and by a key of samekey.toml. A flag wins over the environment,
the environment over the file. `samekey check` shows what it all comes to; SIGHUP reads the operations anew.

Covered are POST and PATCH requests with the header Idempotency-Key. All others pass untouched.

  samekey serve --upstream http://127.0.0.1:3000
  curl -i http://127.0.0.1:8787/orders -H 'Authorization: Bearer t' -H 'Idempotency-Key: 7f9c2ba4-e88f-4c37-9e3c-5a8f1c2d3e4f' \\
       -H 'Content-Type: application/json' -d '{\"sku\":\"tea\"}'";

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(source: Source) -> anyhow::Result<ExitCode> {
    let loaded = config::load(&source, None)?;
    loaded.args.logs.install();
    let exporter = Exporter::install()?;
    Server::start(loaded, source, exporter).await?.run(announce, shutdown_signal()?).await
}

fn announce(server: &Server) -> anyhow::Result<()> {
    let (public, admin) = server.addresses()?;
    let upstream = &server.upstream;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "samekey {} listening http://{public} -> {upstream}, admin http://{admin} (token in {})",
        env!("CARGO_PKG_VERSION"),
        server.token_file.display()
    )?;
    writeln!(out, "{}", server.summary)?;
    Ok(out.flush()?)
}

/// How long, once everything else has ended, operators hear their answers.
const ADMIN_GRACE: Duration = Duration::from_secs(5);

/// Everything that listens, before the first request.
pub(crate) struct Server {
    public: TcpListener,
    admin: TcpListener,
    guard: Guard,
    exporter: Exporter,
    token_file: PathBuf,
    store: Store,
    layer: IdempotencyLayer,
    forward: Forward,
    drain: Duration,
    prefix: Prefix,
    upstream: Uri,
    summary: String,
    operations: Operations,
    loaded: Loaded,
    source: Source,
    /// Of the probes, until each answers as it should.
    checks: JoinSet<()>,
}

impl Server {
    /// Checks the settings, opens the store and binds both listeners.
    pub(crate) async fn start(loaded: Loaded, source: Source, exporter: Exporter) -> anyhow::Result<Self> {
        let args = loaded.args.clone();
        let upstream = args.upstream.clone().context(
            "nothing says where your service is: give --upstream http://127.0.0.1:3000, \
             or write upstream = \"http://127.0.0.1:3000\" in samekey.toml",
        )?;
        let in_a_file = args.store.file().is_some();
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && in_a_file && !args.single_host {
            bail!(
                "an SQLite store belongs to one pod: with two, a retry that meets the other one would run again. \
                 Name a PostgreSQL database with --store, or set --single-host if there is only ever one replica, with \
                 the Recreate strategy and a volume of its own"
            );
        }
        let forward = Forward::new(ForwardConfig {
            upstream: upstream.clone(),
            upstream_ca: args.upstream_ca.clone(),
            trusted: args.actor.trusted(),
            upstream_idle: args.upstream_idle,
            connect_timeout: args.connect_timeout,
        })
        .context("--upstream")?;
        let actor = args.actor.source(&upstream, args.upstream_ca.as_deref())?;
        let probes = Probes::new(&loaded, &args)?;
        let store = open(&args, &loaded).await.context("the store cannot be used")?;
        register(store.policies(), &loaded.table.operations());
        if let Some(horizon) = args.horizon {
            set_horizon(&store, horizon, loaded.others.clock_skew).await?;
        }
        if !args.accept_unnamed_records {
            refuse_unnamed(&store, &loaded.table).await?;
        }
        args.actor.keep_kind(&actor, &store, loaded.others.remember).await?;
        let token_file = args
            .admin_token_file
            .unwrap_or_else(|| admin::default_file(args.store.file().unwrap_or(Path::new("samekey.db"))));
        let guard = Guard::new(Tokens::open(&token_file).context("--admin-token-file")?);
        let summary = format!(
            "store {} ({})   operations: {}   covered: {}   actor: {actor:?}   replay {}, remembered {}",
            args.store.place(),
            if in_a_file { "1 host only" } else { "many hosts" },
            match &loaded.file {
                Some(file) => format!("{} of {}", loaded.operations.len(), file.display()),
                None => "named by method and path".into(),
            },
            match loaded.others.key {
                samekey_core::KeyRule::Required => "every POST, PATCH".into(),
                samekey_core::KeyRule::Optional => format!("POST, PATCH that carry {}", args.server.key_header),
                samekey_core::KeyRule::Ignore => "configured operations".into(),
            },
            humantime::format_duration(loaded.others.retention),
            humantime::format_duration(loaded.others.remember),
        );
        let checks = probes.install(&store);
        let operations = loaded.table.clone();
        let layer = IdempotencyLayer::new(store.clone())
            .actor_source(actor)
            .limits(args.limits.limits())
            .key_header(args.server.key_header.clone())
            .public_prefix(args.public_prefix.clone())
            .cors(args.cors_origins)
            .resolve(operations.clone());
        let bind = async |address: SocketAddr, flag: &str| {
            TcpListener::bind(address).await.with_context(|| format!("{flag} {address} cannot be listened on"))
        };
        Ok(Self {
            public: bind(args.listen, "--listen").await?,
            admin: bind(args.admin, "--admin").await?,
            guard,
            exporter,
            token_file,
            store,
            layer,
            forward,
            drain: args.drain,
            prefix: args.public_prefix,
            upstream,
            summary,
            operations,
            loaded,
            source,
            checks,
        })
    }

    /// Where clients and operators connect.
    pub(crate) fn addresses(&self) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        Ok((self.public.local_addr()?, self.admin.local_addr()?))
    }

    /// Serves until the signal, then lets everything that runs come to its end.
    pub(crate) async fn run(
        mut self,
        ready: impl FnOnce(&Self) -> anyhow::Result<()>,
        signal: impl Future<Output = ()>,
    ) -> anyhow::Result<ExitCode> {
        // Before the announcement: whoever reads it may send the signal at once.
        let checks = std::mem::take(&mut self.checks);
        let reloads = reload::on_hangup(&self.source, &self.loaded, &self.operations, &self.store, checks)?;
        ready(&self)?;
        let phase = Phase::default();
        let (stop_admin, stopped) = tokio::sync::oneshot::channel::<()>();
        let routes = admin::routes(
            self.store.clone(),
            phase.clone(),
            &self.guard,
            self.exporter.clone(),
            self.layer.api(),
            self.prefix.clone(),
        );
        let admin = tokio::spawn(admin::serve(self.admin, routes, async { drop(stopped.await) }));
        let tended = tokio::spawn(self.exporter.tend());
        let counted = tokio::spawn({
            let layer = self.layer.clone();
            async move { layer.observe().await }
        });
        let tunnels = self.forward.tunnels();
        let service = self.layer.front(tower::Layer::layer(&self.layer, self.forward));
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
        drop(stop_admin);
        let _ = tokio::time::timeout(ADMIN_GRACE, admin).await;
        for task in [reloads, tended, counted] {
            task.abort();
        }
        self.store.close().await;
        tracing::info!(event = "stopped");
        Ok(if drained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Opens the store as the settings say.
async fn open(args: &ServeArgs, loaded: &Loaded) -> Result<Store, StoreError> {
    match &args.store {
        StoreUrl::Sqlite(path) => {
            Store::open(SqliteOptions {
                queue_capacity: args.limits.queue,
                min_free_bytes: args.limits.min_free as u64,
                ..SqliteOptions::new(path)
            })
            .await
        }
        StoreUrl::Postgres(url) => {
            let options =
                StoreUrl::postgres(url)?.queue_capacity(args.limits.queue).connections(args.store_connections);
            // A failover that nobody saw yet makes records uncertain while the store opens.
            register(options.policies(), &loaded.table.operations());
            Store::open(options).await
        }
    }
}

/// One to write and one to read, at least.
fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 2..=1000) => Ok(number),
        _ => Err("write a number from 2 to 1000".into()),
    }
}

/// What was lost before the horizon is settled before anything is served.
async fn set_horizon(store: &Store, horizon: Timestamp, clock_skew: Duration) -> anyhow::Result<()> {
    if horizon > store.now() + clock_skew {
        bail!(
            "horizon {} is yet to come: every new key would be uncertain; write the moment of the restore, or take it out",
            moment::shown(horizon)
        );
    }
    if let Some(uncertain) = store.set_horizon(horizon).await.context("the horizon cannot be set")? {
        tracing::warn!(
            event = "horizon",
            horizon = moment::shown(horizon),
            uncertain,
            "keys that may be older and are not known are uncertain from now on, and so are records that had not ended"
        );
    }
    Ok(())
}

fn url(text: &str) -> Result<Uri, String> {
    text.parse().map_err(|error| format!("{error}; write for instance http://127.0.0.1:3000"))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text} is no address with a port; write for instance 127.0.0.1:8787"))
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
