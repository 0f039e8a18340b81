//! Keys that tokens are verified with, and the files they come from.
//!
//! The key's type decides which algorithms it may verify, never the token: a token that names HMAC cannot turn a
//! public RSA key into a secret.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jsonwebtoken::crypto::CryptoProvider;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;
use tokio::time::Instant;

/// A changed file is noticed within this time.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A token signed by a key that is not known yet makes it look sooner, but no flood of tokens more often than this.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Hundreds of keys; a file that grows beyond it is not one of keys.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// RFC 7518, section 3.2: a key of at least the hash's size.
const MIN_SECRET_BYTES: usize = 32;
/// RFC 7518, section 3.3: 2048 bits or more. The upper bound is that of the verifying library.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyFile {
    /// One key: a PEM public key, or the raw secret of HS256, HS384, HS512.
    One(PathBuf),
    /// A JWK set (RFC 7517); tokens name their key by `kid`.
    Set(PathBuf),
}

impl KeyFile {
    fn path(&self) -> &Path {
        match self {
            Self::One(path) | Self::Set(path) => path,
        }
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        use std::io::Read;
        let file = std::fs::File::open(self.path()).map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err("it is larger than 1 MiB, which no file of keys is".into());
        }
        Ok(content)
    }

    fn parse(&self, content: &[u8]) -> Result<Ring, String> {
        match self {
            Self::One(_) => one(content).map(|key| Ring { alone: Some(Arc::new(key)), by_kid: None }),
            Self::Set(_) => set(content),
        }
    }
}

/// A file that holds no usable keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub(crate) struct KeyFileError {
    file: PathBuf,
    why: String,
}

/// One key and what it may verify.
#[derive(Debug)]
pub(super) struct VerifyingKey {
    pub(super) key: DecodingKey,
    pub(super) algorithms: Vec<Algorithm>,
}

#[derive(Debug)]
struct Ring {
    /// For tokens without `kid`: the only key there is.
    alone: Option<Arc<VerifyingKey>>,
    /// `None`: the file is one key, and `kid` does not matter.
    by_kid: Option<HashMap<String, Arc<VerifyingKey>>>,
}

impl Ring {
    fn find(&self, kid: Option<&str>) -> Option<Arc<VerifyingKey>> {
        match (&self.by_kid, kid) {
            (Some(by_kid), Some(kid)) => by_kid.get(kid).cloned(),
            _ => self.alone.clone(),
        }
    }
}

/// The keys of a file, read again when it changes: all of it or nothing.
#[derive(Debug)]
pub(crate) struct VerifyingKeys {
    file: Arc<KeyFile>,
    ring: Mutex<Arc<Ring>>,
    looked: tokio::sync::Mutex<Looked>,
}

#[derive(Debug)]
struct Looked {
    at: Instant,
    /// What was last read, usable or not.
    content: Result<Vec<u8>, String>,
}

impl VerifyingKeys {
    /// Reads the file.
    pub(crate) fn open(file: KeyFile) -> Result<Self, KeyFileError> {
        let of = |why| KeyFileError { file: file.path().to_owned(), why };
        let content = file.read().map_err(of)?;
        let ring = Mutex::new(Arc::new(file.parse(&content).map_err(of)?));
        let looked = tokio::sync::Mutex::new(Looked { at: Instant::now(), content: Ok(content) });
        Ok(Self { file: Arc::new(file), ring, looked })
    }

    fn ring(&self) -> MutexGuard<'_, Arc<Ring>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that a token names.
    pub(super) async fn find(&self, kid: Option<&str>) -> Option<Arc<VerifyingKey>> {
        // One request looks at the file, the others go on with what is known.
        if let Ok(looked) = self.looked.try_lock() {
            self.look(looked, LOOK_EVERY).await;
        }
        let found = self.ring().find(kid);
        if found.is_some() {
            return found;
        }
        self.look(self.looked.lock().await, LOOK_AGAIN).await;
        self.ring().find(kid)
    }

    async fn look(&self, mut looked: tokio::sync::MutexGuard<'_, Looked>, every: Duration) {
        if looked.at.elapsed() < every {
            return;
        }
        let file = Arc::clone(&self.file);
        let read = tokio::task::spawn_blocking(move || {
            let content = file.read();
            let ring = content.clone().and_then(|content| file.parse(&content));
            (content, ring)
        });
        let Ok((content, ring)) = read.await else { return };
        looked.at = Instant::now();
        if content == looked.content {
            return;
        }
        looked.content = content;
        let file = self.file.path().display();
        match ring {
            Ok(ring) => {
                *self.ring() = Arc::new(ring);
                tracing::info!(event = "config", %file, "the keys that tokens are verified with were read anew");
            }
            Err(why) => {
                tracing::error!(event = "config", %file, why, "the changed file of keys is not usable; the keys that were read before still count");
            }
        }
    }
}

/// A PEM public key or a secret. Whatever looks like something public is never taken for a secret.
fn one(content: &[u8]) -> Result<VerifyingKey, String> {
    let text = std::str::from_utf8(content).unwrap_or_default().trim();
    if text.contains("-----BEGIN") {
        return pem(text);
    }
    if text.starts_with('{') {
        return Err("it holds JSON; name a set of JWKs by --jwks-file".into());
    }
    if text.starts_with("ssh-") || text.starts_with("ecdsa-") || is_der(content) {
        return Err("it is a public key in another format; write it as PEM: openssl pkey -pubin -in KEY -inform DER, \
                    or ssh-keygen -e -m PKCS8 -f KEY"
            .into());
    }
    // Editors and `echo` end the last line.
    let secret = content.strip_suffix(b"\n").unwrap_or(content);
    secret_key(secret.strip_suffix(b"\r").unwrap_or(secret))
}

fn pem(text: &str) -> Result<VerifyingKey, String> {
    if text.contains("PRIVATE KEY-----") {
        return Err("it holds a private key, which only the issuer should have; write the public one: \
                    openssl pkey -in KEY -pubout"
            .into());
    }
    if text.contains("BEGIN CERTIFICATE") {
        return Err("it holds a certificate; write its public key: openssl x509 -in CERTIFICATE -noout -pubkey".into());
    }
    if text.matches("-----BEGIN").count() != 1 {
        return Err("it holds more than one PEM block; name several keys by --jwks-file".into());
    }
    let read = DecodingKey::from_rsa_pem(text.as_bytes())
        .or_else(|_| DecodingKey::from_ec_pem(text.as_bytes()))
        .or_else(|_| DecodingKey::from_ed_pem(text.as_bytes()));
    checked(read.map_err(|_| "its PEM block is no public key of RSA, P-256, P-384 or Ed25519")?)
}

/// A DER sequence whose length is that of the file.
fn is_der(content: &[u8]) -> bool {
    match content {
        [0x30, 0x82, high, low, rest @ ..] => usize::from(u16::from_be_bytes([*high, *low])) == rest.len(),
        [0x30, 0x81, length, rest @ ..] => usize::from(*length) == rest.len(),
        [0x30, length, rest @ ..] => usize::from(*length) == rest.len(),
        _ => false,
    }
}

fn secret_key(secret: &[u8]) -> Result<VerifyingKey, String> {
    if secret.len() < MIN_SECRET_BYTES {
        return Err(format!(
            "a secret of {} bytes can be guessed; use {MIN_SECRET_BYTES} or more, for instance from openssl rand -hex 32",
            secret.len()
        ));
    }
    checked(DecodingKey::from_secret(secret).map_err(|error| error.to_string())?)
}

/// The key with the algorithms of its type, if it is one that can verify at all.
fn checked(key: DecodingKey) -> Result<VerifyingKey, String> {
    use jsonwebtoken::AlgorithmFamily::{Ec, Ed, Hmac, Rsa};
    let algorithms = match (key.family(), key.kind()) {
        (Ec, DecodingKeyKind::SecretOrDer(point)) => match point.len() {
            65 => vec![Algorithm::ES256],
            97 => vec![Algorithm::ES384],
            _ => return Err("its curve is not supported; use P-256 or P-384, with an uncompressed point".into()),
        },
        (Ed, DecodingKeyKind::SecretOrDer(point)) if point.len() != 32 => {
            return Err("its curve is not supported; use Ed25519".into());
        }
        (Rsa, kind) => {
            let modulus = match kind {
                DecodingKeyKind::RsaModulusExponent { n, .. } => n.clone(),
                DecodingKeyKind::SecretOrDer(der) => {
                    let provider = CryptoProvider::try_get_default().ok_or("this build cannot verify tokens")?;
                    let parts = (provider.key_utils.rsa_pub_components_from_public_key)(der);
                    parts.map_err(|_| "its RSA key cannot be read")?.0
                }
            };
            let bytes = modulus.iter().skip_while(|byte| **byte == 0).count();
            if !RSA_BYTES.contains(&bytes) {
                return Err(format!("its RSA key has about {} bits; use 2048 to 4096", bytes * 8));
            }
            Rsa.algorithms().to_vec()
        }
        (family @ (Hmac | Ed), _) => family.algorithms().to_vec(),
        _ => return Err("its key cannot be used".into()),
    };
    // Reads the key for good; that nothing was signed does not matter.
    jsonwebtoken::crypto::verify("", b"", &key, algorithms[0]).map_err(|_| "its key is not valid")?;
    Ok(VerifyingKey { key, algorithms })
}

fn set(content: &[u8]) -> Result<Ring, String> {
    let document: Value = serde_json::from_slice(content).map_err(|error| format!("it is no JSON: {error}"))?;
    let jwks = document["keys"].as_array().ok_or("it is no JWK set; write {\"keys\": […]}")?;
    let mut usable = Vec::new();
    for (index, jwk) in jwks.iter().enumerate() {
        let Some(key) = jwk_key(jwk).map_err(|why| format!("keys[{index}]: {why}"))? else { continue };
        let kid = match &jwk["kid"] {
            Value::Null => None,
            Value::String(kid) => Some(kid.clone()),
            _ => return Err(format!("keys[{index}]: its kid is not a text")),
        };
        usable.push((index, kid, Arc::new(key)));
    }
    let alone = match &usable[..] {
        [] => return Err("none of its keys is one of RSA, P-256, P-384, Ed25519 or a secret, for signatures".into()),
        [(_, _, key)] => Some(Arc::clone(key)),
        _ => None,
    };
    let mut by_kid = HashMap::new();
    for (index, kid, key) in usable {
        if let Some(kid) = kid {
            if by_kid.insert(kid, key).is_some() {
                return Err(format!("keys[{index}]: another key has the same kid"));
            }
        } else if alone.is_none() {
            return Err(format!("keys[{index}]: it has no kid, and there is more than one key"));
        }
    }
    Ok(Ring { alone, by_kid: Some(by_kid) })
}

/// `None` for keys that are meant for something else: sets are shared, and grow (RFC 7517, section 5).
fn jwk_key(jwk: &Value) -> Result<Option<VerifyingKey>, String> {
    let text = |name: &str| jwk[name].as_str();
    let needed = |name: &'static str| text(name).ok_or(format!("{name} is missing"));
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    let broken = |_| "its parameters cannot be read".to_owned();
    let (key, bytes) = match (text("kty"), text("crv")) {
        (Some("RSA"), _) => (DecodingKey::from_rsa_components(needed("n")?, needed("e")?).map_err(broken)?, None),
        (Some("EC"), Some("P-256")) => (point(needed("x")?, needed("y")?)?, Some(65)),
        (Some("EC"), Some("P-384")) => (point(needed("x")?, needed("y")?)?, Some(97)),
        (Some("OKP"), Some("Ed25519")) => (DecodingKey::from_ed_components(needed("x")?).map_err(broken)?, Some(32)),
        (Some("oct"), _) => {
            let jwk = serde_json::from_value(jwk.clone()).map_err(|_| "its parameters cannot be read")?;
            (DecodingKey::from_jwk(&jwk).map_err(broken)?, None)
        }
        (Some("EC" | "OKP"), None) => return Err("crv is missing".into()),
        (Some(_), _) => return Ok(None),
        (None, _) => return Err("kty is missing".into()),
    };
    let length = key.try_get_as_bytes().map_or(0, <[u8]>::len);
    if bytes.is_some_and(|bytes| bytes != length) {
        return Err("its point has not the length of its curve".into());
    }
    let mut key = if key.family() == jsonwebtoken::AlgorithmFamily::Hmac {
        secret_key(key.try_get_as_bytes().map_err(broken)?)?
    } else {
        checked(key)?
    };
    if let Some(only) = text("alg") {
        key.algorithms.retain(|algorithm| format!("{algorithm:?}") == only);
    }
    Ok((!key.algorithms.is_empty()).then_some(key))
}

fn point(x: &str, y: &str) -> Result<DecodingKey, String> {
    DecodingKey::from_ec_components(x, y).map_err(|_| "its parameters cannot be read".to_owned())
}

#[cfg(test)]
mod tests;
