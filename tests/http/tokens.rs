//! Tokens as issuers sign them, and keys to sign them with. The keys are made for these tests and sign nothing else.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the server under test is told to expect.
pub(crate) const AUDIENCE: &str = "shop";
/// Shared by issuer and server.
pub(crate) const SECRET: &str = "a secret for these tests and for nothing else";

/// A key for tests by its name, `rsa` `rsa_other` `p256` `p384` `ed25519`: the public half of it.
pub(crate) fn public(name: &str) -> PathBuf {
    folder().join(format!("{name}.pub"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("http/keys_for_tests_only")
}

fn signing(name: &str) -> EncodingKey {
    if name == "secret" {
        return EncodingKey::from_secret(SECRET.as_bytes()).expect("a secret");
    }
    let pem = std::fs::read(folder().join(format!("{name}.pem"))).expect("a key for tests");
    let key = match name {
        "rsa" | "rsa_other" => EncodingKey::from_rsa_pem(&pem),
        "p256" | "p384" => EncodingKey::from_ec_pem(&pem),
        _ => EncodingKey::from_ed_pem(&pem),
    };
    key.expect("a key for tests")
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Claims that are accepted.
pub(crate) fn claims(sub: &str) -> Value {
    json!({ "sub": sub, "aud": AUDIENCE, "exp": now() + 300 })
}

/// A token by this key.
pub(crate) fn signed(key: &str, algorithm: Algorithm, kid: Option<&str>, claims: &Value) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, claims, &signing(key)).expect("a token")
}

/// A token whose head and claims are these bytes, with a signature of the key's over them.
pub(crate) fn signed_raw(key: &str, algorithm: Algorithm, head: &str, claims: &str) -> String {
    let message = format!("{}.{}", base64url(head), base64url(claims));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &signing(key), algorithm).expect("a signature");
    format!("{message}.{signature}")
}

/// A token with HMAC under a secret of the forger's choice.
pub(crate) fn forged(secret: &[u8], kid: Option<&str>, claims: &Value) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::HS256) };
    encode(&header, claims, &EncodingKey::from_secret(secret).expect("a secret")).expect("a token")
}

/// The public half as a JWK with this name.
pub(crate) fn jwk(key: &str, algorithm: Algorithm, kid: &str) -> Value {
    let jwk = Jwk::from_encoding_key(&signing(key), algorithm).expect("a JWK");
    let mut jwk = serde_json::to_value(jwk).expect("JSON");
    jwk["kid"] = kid.into();
    jwk
}

/// RFC 4648, section 5, without padding.
pub(crate) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.as_ref().chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}
