//! Connections to the upstream, over TLS where its address says `https`.
//!
//! The handshake is part of connecting, under the same limit: an error in it comes before a connection is chosen, and
//! so proves that nothing was sent. Early data, which would break that proof, is never used.
//!
//! The name that is asked for (SNI) and that the certificate must carry is the host of `--upstream`, whatever `Host`
//! the client sent: the certificate proves the operator's choice, not the client's.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::Service;

/// Finds an upstream that vanished without a word under a long answer.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

tokio::task_local! {
    /// Until when the request that waits for a connection may be sent. A connection that is opened for the pool, by a
    /// task of its own, waits for no request.
    static NOT_AFTER: Instant;
}

/// Sends no request on a connection that was opened after this moment.
pub(super) async fn within<F: Future>(not_after: Option<Instant>, request: F) -> F::Output {
    match not_after {
        Some(moment) => NOT_AFTER.scope(moment, request).await,
        None => request.await,
    }
}

/// Why TLS cannot be spoken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsError {
    /// The file of `--upstream-ca` cannot be used.
    #[error("{} holds no usable certificates in PEM form: {why}", file.display())]
    Ca {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system has none.
    #[error("the system's root certificates cannot be used ({0}); name a file of them with --upstream-ca")]
    System(String),
    /// rustls refuses its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// Opens connections.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    inner: HttpsConnector<HttpConnector>,
    limit: Duration,
}

impl Connector {
    /// Reads certificates only where they are needed.
    pub(super) fn new(secure: bool, ca: Option<&Path>, limit: Duration) -> Result<Self, TlsError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        tcp.enforce_http(false);
        let https = HttpsConnectorBuilder::new().with_tls_config(tls(secure, ca)?);
        let https = if secure { https.https_only() } else { https.https_or_http() };
        Ok(Self { inner: https.enable_http1().wrap_connector(tcp), limit })
    }
}

fn tls(secure: bool, ca: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))?;
    let config = match ca {
        _ if !secure => config.with_root_certificates(RootCertStore::empty()),
        Some(file) => config.with_root_certificates(private(file)?),
        None => config.with_native_roots().map_err(|error| TlsError::System(error.to_string()))?,
    };
    Ok(config.with_no_client_auth())
}

/// Only the named ones count then: whoever has a private authority does not want every public one to speak for it.
fn private(file: &Path) -> Result<RootCertStore, TlsError> {
    let wrong = |why: String| TlsError::Ca { file: file.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("it is empty".to_owned())) } else { Ok(roots) }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = axum::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, upstream: Uri) -> Self::Future {
        let (connecting, limit) = (self.inner.call(upstream), self.limit);
        Box::pin(async move {
            let connected = match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected?,
                Err(_) => return Err("connecting took too long".into()),
            };
            // A process that was stopped meanwhile finds itself connected, and its claim settled by others.
            match NOT_AFTER.try_with(|moment| Instant::now() >= *moment) {
                Ok(true) => Err("the claim was over before the connection was open".into()),
                _ => Ok(connected),
            }
        })
    }
}
