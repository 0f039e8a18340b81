//! Where records are looked at: a running server, or the file of its store.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::body::Body;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admin::{DEFAULT_FILE, Scope, pick_token};
use crate::api::records::{RecordsPage, detail, page};
use crate::api::settle::{SettleRequest, settle};
use crate::api::view::RecordDetail;
use crate::cli::config;
use crate::cli::store::StoreUrl;
use crate::layer::{Resolve, register};
use crate::names;
use crate::problem::Problem;
use crate::proxy::ask::{self, Unanswered};
use crate::store::{RecordId, Search, SqliteOptions, Store};

/// A little more than the server's own patience.
const PATIENCE: Duration = Duration::from_secs(35);
/// A page of 500 records, and one record with the longest trail that people make.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Where to look.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// The admin listener of a running server
    #[arg(long, env = "SAMEKEY_ADMIN", value_name = "URL", value_parser = url, default_value = "127.0.0.1:8788")]
    admin: Uri,

    /// The server's token file
    #[arg(long, env = "SAMEKEY_ADMIN_TOKEN_FILE", value_name = "FILE", default_value = DEFAULT_FILE)]
    admin_token_file: PathBuf,

    /// Instead of a server its store, for when none runs: samekey.db, sqlite:PATH; settling takes the store's write
    /// lock, so it is safe if one runs all the same
    #[arg(long, value_name = "STORE", value_parser = store)]
    store: Option<StoreUrl>,

    /// With --store: the configuration of its server, for what its operations promise [default: samekey.toml, if it is
    /// there]
    #[arg(long, env = "SAMEKEY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A file, or what `samekey serve` is told.
fn store(text: &str) -> Result<StoreUrl, String> {
    if text.contains(':') { text.parse() } else { Ok(StoreUrl::Sqlite(text.into())) }
}

/// `127.0.0.1:8788` or a whole URL.
fn url(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri =
        whole.trim_end_matches('/').parse().map_err(|error| format!("{error}; write for instance 127.0.0.1:8788"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(format!("{text} is no address of a server; write for instance 127.0.0.1:8788")),
    }
}

/// A server, or a store.
pub(super) enum Source<'a> {
    Server(&'a SourceArgs),
    File(Store),
}

impl SourceArgs {
    pub(super) async fn open(&self) -> anyhow::Result<Source<'_>> {
        let Some(at) = &self.store else { return Ok(Source::Server(self)) };
        if let Some(path) = at.file().filter(|path| !path.is_file()) {
            bail!("there is no store at {}; name the file that `samekey serve --store` names", path.display());
        }
        let mut words: Vec<OsString> = vec!["samekey".into(), "serve".into()];
        if let Some(config) = &self.config {
            words.extend(["--config".into(), config.into()]);
        }
        let loaded = config::load(&config::Source::of_words(words), None)
            .context("what the operations of this store promise cannot be read")?;
        let store = match at {
            StoreUrl::Sqlite(path) => Store::open(SqliteOptions::new(path).unattended()).await?,
            StoreUrl::Postgres(url) => {
                let options = StoreUrl::postgres(url)?.unattended();
                // A failover that nobody saw yet makes records uncertain while the store opens.
                register(options.policies(), &loaded.table.operations());
                Store::open(options).await?
            }
        };
        register(store.policies(), &loaded.table.operations());
        Ok(Source::File(store))
    }

    /// One call of the server.
    async fn call<T: DeserializeOwned>(&self, scope: Scope, mut request: Request<Body>) -> anyhow::Result<T> {
        let token = pick_token(&self.admin_token_file, scope).context(
            "no token for this server: name its token file with --admin-token-file, or its store with --store",
        )?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        let place = self.admin.to_string();
        let place = place.trim_end_matches('/');
        *request.uri_mut() = format!("{place}{}", request.uri()).parse()?;
        let (head, body) = ask::admin(request, PATIENCE, MAX_ANSWER_BYTES).await.map_err(|error| match error {
            Unanswered::Never(why) => anyhow!(
                "no server answers at {place} ({why}); give --admin if it listens elsewhere, or --store FILE to look into \
                 the store of one that is down"
            ),
            Unanswered::Perhaps(why) => anyhow!(
                "{place} was asked and gave no whole answer: {why}; what it was asked may be done, so look before you ask again"
            ),
        })?;
        if head.status.is_success() {
            return serde_json::from_slice(&body).with_context(|| {
                format!("what {place} answers is not of this version; use the samekey of the server, or look whether it is one")
            });
        }
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("it does not say why; is it the admin listener of samekey?");
        match head.status {
            StatusCode::UNAUTHORIZED => bail!(
                "{place} does not know the token of {}; name the token file of that server with --admin-token-file",
                self.admin_token_file.display()
            ),
            _ => bail!("{detail}{}", hint(&problem)),
        }
    }
}

/// What a refusal leaves to do.
fn hint(problem: &Value) -> String {
    let seconds = problem["retry_after"].as_u64().map(|seconds| format!(" ({seconds} s to go)"));
    seconds.unwrap_or_default()
}

impl Source<'_> {
    pub(super) async fn page(
        &self,
        search: &Search,
        query: &str,
        before: Option<i64>,
        limit: usize,
    ) -> anyhow::Result<RecordsPage> {
        match self {
            Self::File(store) => page(store, search, before, limit).await.map_err(|problem| said(&problem)),
            Self::Server(server) => {
                let before = before.map(|id| format!("&before={id}")).unwrap_or_default();
                let mut request = Request::new(Body::empty());
                *request.uri_mut() = format!("/v1/records?limit={limit}{query}{before}").parse()?;
                if let Some(key) = &search.key {
                    let mut key = HeaderValue::from_str(key.expose())?;
                    key.set_sensitive(true);
                    request.headers_mut().insert(names::KEY, key);
                }
                server.call(Scope::Read, request).await
            }
        }
    }

    pub(super) async fn detail(&self, id: i64) -> anyhow::Result<RecordDetail> {
        match self {
            Self::File(store) => detail(store, RecordId(id)).await.map_err(|problem| said(&problem)),
            Self::Server(server) => {
                let mut request = Request::new(Body::empty());
                *request.uri_mut() = format!("/v1/records/{id}").parse()?;
                server.call(Scope::Read, request).await
            }
        }
    }

    pub(super) async fn settle(&self, id: i64, settlement: SettleRequest) -> anyhow::Result<RecordDetail> {
        match self {
            Self::File(store) => {
                settle(store, RecordId(id), settlement, " (on the store's file)")
                    .await
                    .map_err(|problem| said(&problem))?;
                detail(store, RecordId(id)).await.map_err(|problem| said(&problem))
            }
            Self::Server(server) => {
                let mut request = Request::new(Body::from(serde_json::to_vec(&settlement)?));
                *request.method_mut() = Method::POST;
                *request.uri_mut() = format!("/v1/records/{id}/settle").parse()?;
                request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                server.call(Scope::Settle, request).await
            }
        }
    }

    /// Writes what is queued and closes a file.
    pub(super) async fn close(self) {
        if let Self::File(store) = self {
            store.close().await;
        }
    }
}

/// A refusal in a sentence, with when to come back.
fn said(problem: &Problem) -> anyhow::Error {
    let wait = problem.retry_after.map(|after| format!(" ({} s to go)", after.as_secs().max(1)));
    anyhow!("{}{}", problem.detail, wait.unwrap_or_default())
}
