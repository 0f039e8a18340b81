use serde_json::json;

use super::*;

// RFC 7515, appendices A.1 and A.3.
const K: &str = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
// RFC 8037, appendix A.
const ED_X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn ring(keys: &Value) -> Result<Ring, String> {
    set(json!({ "keys": keys }).to_string().as_bytes())
}

fn algorithms(ring: &Ring, kid: Option<&str>) -> Option<String> {
    ring.find(kid).map(|key| format!("{:?}", key.algorithms))
}

#[test]
fn the_type_of_a_key_fixes_its_algorithms() {
    let ring = ring(&json!([
        { "kty": "oct", "k": K, "kid": "a" },
        { "kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": "b" },
        { "kty": "OKP", "crv": "Ed25519", "x": ED_X, "kid": "c" },
        { "kty": "oct", "k": K, "alg": "HS512", "kid": "d" },
    ]))
    .unwrap();
    assert_eq!(algorithms(&ring, Some("a")).as_deref(), Some("[HS256, HS384, HS512]"));
    assert_eq!(algorithms(&ring, Some("b")).as_deref(), Some("[ES256]"));
    assert_eq!(algorithms(&ring, Some("c")).as_deref(), Some("[EdDSA]"));
    assert_eq!(algorithms(&ring, Some("d")).as_deref(), Some("[HS512]"));
    for unknown in [None, Some("e"), Some(""), Some("A")] {
        assert_eq!(algorithms(&ring, unknown), None, "{unknown:?}");
    }
}

#[test]
fn keys_for_something_else_are_passed_over() {
    let ours = json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y });
    for other in [
        json!({ "kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB", "kid": "other" }),
        json!({ "kty": "EC", "crv": "P-521", "x": X, "y": Y, "kid": "other" }),
        json!({ "kty": "EC", "crv": "secp256k1", "x": X, "y": Y, "kid": "other" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": ED_X, "kid": "other" }),
        json!({ "kty": "AKP", "pub": "AA", "kid": "other" }),
        json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "alg": "ECDH-ES", "kid": "other" }),
    ] {
        let ring = ring(&json!([other, ours])).unwrap();
        assert_eq!(algorithms(&ring, None).as_deref(), Some("[ES256]"), "the only one needs no kid");
        assert_eq!(algorithms(&ring, Some("other")), None, "{other}");
    }
}

#[test]
fn a_set_is_taken_as_a_whole_or_refused() {
    let good = json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": "good" });
    for (bad, why) in [
        (json!({ "kid": "x" }), "kty"),
        (json!({ "kty": "EC", "kid": "x" }), "crv"),
        (json!({ "kty": "EC", "crv": "P-256", "x": X, "kid": "x" }), "y is missing"),
        (json!({ "kty": "EC", "crv": "P-256", "x": X, "y": X, "kid": "x" }), "not valid"),
        (json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": Y, "kid": "x" }), "length"),
        (json!({ "kty": "EC", "crv": "P-384", "x": X, "y": Y, "kid": "x" }), "length"),
        (json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "x" }), "length"),
        (json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "x" }), "2048"),
        (json!({ "kty": "RSA", "n": "%", "e": "AQAB", "kid": "x" }), "cannot be read"),
        (json!({ "kty": "oct", "k": "c2hvcnQ", "kid": "x" }), "guessed"),
        (json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": "good" }), "same kid"),
        (json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y }), "no kid"),
        (json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": 7 }), "kid"),
    ] {
        let error = ring(&json!([good, bad])).unwrap_err();
        assert!(error.contains(why) && error.contains("keys[1]"), "{bad}: {error}");
    }
    for (content, why) in [("", "no JSON"), ("[]", "JWK set"), ("{\"keys\":[]}", "none"), ("{\"keys\":7}", "JWK set")] {
        let error = set(content.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{content}: {error}");
    }
}

#[test]
fn what_looks_public_is_never_a_secret() {
    let der = [&[0x30, 0x82, 1, 0][..], &[7; 256]].concat();
    let long = "x".repeat(64);
    for (content, why) in [
        (format!("-----BEGIN CERTIFICATE-----\n{long}\n-----END CERTIFICATE-----\n").into_bytes(), "x509"),
        (format!("-----BEGIN PUBLIC KEY-----\n{long}\n-----END PUBLIC KEY-----\n").into_bytes(), "no public key"),
        (format!(" -----BEGIN RSA PRIVATE KEY-----\n{long}\n").into_bytes(), "private key"),
        (format!("-----BEGIN EC PRIVATE KEY-----\n{long}\n").into_bytes(), "private key"),
        (b"-----BEGIN PUBLIC KEY-----\n-----BEGIN PUBLIC KEY-----".to_vec(), "more than one"),
        (format!("ssh-ed25519 {long}").into_bytes(), "another format"),
        (format!("{{\"keys\":[\"{long}\"]}}").into_bytes(), "--jwks-file"),
        (der, "another format"),
        (b"".to_vec(), "guessed"),
        (b"secret\n".to_vec(), "guessed"),
    ] {
        let error = one(&content).map(|_| ()).unwrap_err();
        assert!(error.contains(why), "{}: {error}", String::from_utf8_lossy(&content));
    }
    let secret = |content: &[u8]| one(content).unwrap().key.try_get_as_bytes().unwrap().to_vec();
    for ending in ["", "\n", "\r\n"] {
        assert_eq!(secret(format!("{long}{ending}").as_bytes()), long.as_bytes(), "{ending:?} ends the line");
    }
    assert_eq!(secret(format!("{long}\n\n").as_bytes()), format!("{long}\n").as_bytes(), "one line end only");
}

#[tokio::test]
async fn a_changed_file_is_read_anew_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let write = |kids: &[&str]| {
        let keys: Vec<Value> =
            kids.iter().map(|kid| json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": kid })).collect();
        std::fs::write(&file, json!({ "keys": keys }).to_string()).unwrap();
    };
    write(&["old"]);
    let keys = VerifyingKeys::open(KeyFile::Set(file.clone())).unwrap();
    assert!(keys.find(Some("old")).await.is_some());
    assert!(keys.find(Some("new")).await.is_none());
    std::fs::write(&file, r#"{"keys":[{"kty":"EC","kid":"new"}]}"#).unwrap();
    tokio::time::sleep(LOOK_AGAIN).await;
    assert!(keys.find(Some("new")).await.is_none(), "a broken file changes nothing");
    assert!(keys.find(Some("old")).await.is_some());
    write(&["new"]);
    tokio::time::sleep(LOOK_AGAIN).await;
    assert!(keys.find(Some("new")).await.is_some(), "an unknown key makes it look at once");
    assert!(keys.find(Some("old")).await.is_none(), "and what is gone is gone");
    std::fs::remove_file(&file).unwrap();
    tokio::time::sleep(LOOK_EVERY).await;
    assert!(keys.find(Some("new")).await.is_some(), "a file that is missing changes nothing");
}

#[test]
fn a_file_that_is_missing_is_named() {
    let error = VerifyingKeys::open(KeyFile::Set("no/such.json".into())).unwrap_err().to_string();
    assert!(error.starts_with("no/such.json: "), "{error}");
}
