//! The URL of a database, and TLS as it asks for it. The words are libpq's.
//!
//! | `sslmode` | encrypted | the certificate |
//! |---|---|---|
//! | `disable` | no | – |
//! | `prefer` (the default) | if the server can | is not looked at |
//! | `require` | yes | is not looked at |
//! | `verify-ca` | yes | comes from an authority of `sslrootcert`, or of the system's |
//! | `verify-full` | yes | and carries the host's name |

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How much of a certificate is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verify {
    Nothing,
    Authority,
    Name,
}

/// Splits off what the client library does not know of TLS. An error never holds the password.
pub(super) fn parse(url: &str) -> Result<(Config, MakeRustlsConnect), String> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut verify, mut roots) = (SslMode::Prefer, Verify::Nothing, None);
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("sslmode", word) => {
                (mode, verify) = match word {
                    "disable" => (SslMode::Disable, Verify::Nothing),
                    "prefer" => (SslMode::Prefer, Verify::Nothing),
                    "require" => (SslMode::Require, Verify::Nothing),
                    "verify-ca" => (SslMode::Require, Verify::Authority),
                    "verify-full" => (SslMode::Require, Verify::Name),
                    _ => {
                        return Err(format!(
                            "sslmode={word} is not known; write disable, prefer, require, verify-ca or verify-full"
                        ));
                    }
                };
            }
            ("sslrootcert", file) => roots = Some(decoded(file)?),
            _ => rest.push(pair),
        }
    }
    if roots.is_some() && verify == Verify::Nothing {
        return Err("sslrootcert is of no use without sslmode=verify-ca or sslmode=verify-full".into());
    }
    let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    let mut config: Config = plain.parse().map_err(|error| {
        format!("the store's URL cannot be read ({error}); write postgres://user:password@host:5432/database")
    })?;
    if config.get_hosts().is_empty() {
        return Err("the store's URL names no host; write postgres://user:password@host:5432/database".into());
    }
    config.ssl_mode(mode);
    Ok((config, MakeRustlsConnect::new(client(verify, roots.as_deref())?)))
}

fn decoded(text: &str) -> Result<String, String> {
    let bytes = samekey_core::uri::percent_decode(text.as_bytes()).map_err(|error| format!("sslrootcert: {error}"))?;
    String::from_utf8(bytes.into_owned()).map_err(|_| "sslrootcert is no text".into())
}

fn client(verify: Verify, roots: Option<&str>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let inner = match verify {
        Verify::Nothing => None,
        Verify::Authority | Verify::Name => {
            let roots = Arc::new(authorities(roots)?);
            let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            Some(inner.map_err(|error| format!("TLS cannot be set up: {error}"))?)
        }
    };
    let config = match (inner, verify) {
        (Some(inner), Verify::Name) => builder.with_webpki_verifier(inner),
        (inner, _) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Lenient { authority: inner, provider }))
        }
    };
    Ok(config.with_no_client_auth())
}

fn authorities(file: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match file {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system has no root certificates; name a file of them with sslrootcert".into());
            }
        }
        Some(file) => {
            let wrong = |why: String| format!("sslrootcert: {file} holds no usable certificates in PEM form: {why}");
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(wrong("it is empty".into()));
            }
        }
    }
    Ok(roots)
}

/// Looks at less than the whole certificate, because the URL says so: any server, or any of this authority.
#[derive(Debug)]
struct Lenient {
    authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(certificate, chain, name, ocsp, now) {
            // The name is looked at last.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
