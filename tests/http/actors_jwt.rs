//! `--actor jwt:CLAIM`: a token counts only if it is whole, signed by a known key in that key's way, current, and
//! meant for this service.

use crate::tokens::{AUDIENCE, SECRET, base64url, claims, forged, jwk, now, public, signed, signed_raw};
use jsonwebtoken::Algorithm::{self, ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, RS256, RS384, RS512};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use support::{Answer, Request, Serve, Server, Upstream, keys};

fn jwt(upstream: &Upstream) -> Serve {
    Serve::before(upstream).set("--actor", "jwt:sub").set("--jwt-audience", AUDIENCE)
}

fn by_key(upstream: &Upstream, key: &str) -> Serve {
    jwt(upstream).set("--jwt-key-file", &public(key).display().to_string())
}

fn by_set(upstream: &Upstream, keys: &[Value]) -> (Serve, std::path::PathBuf) {
    let serve = jwt(upstream);
    let file = serve.folder().join("keys.json");
    write_set(&file, keys);
    (serve.set("--jwks-file", &file.display().to_string()), file)
}

fn write_set(file: &Path, keys: &[Value]) {
    std::fs::write(file, json!({ "keys": keys }).to_string()).expect("a set of keys");
}

fn order(key: &str, token: &str) -> Request {
    Request::order(key).actor(&format!("Bearer {token}"))
}

/// Refused in all that RFC 6750 and the contract say, before anything ran.
#[track_caller]
fn is_invalid(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 401, "{what}: {}", answer.text());
    answer.refuses(401, "actor_required", "sign_in", "none");
    let challenge = answer.header("www-authenticate").expect("a challenge");
    assert!(challenge.starts_with("Bearer ") && challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
    assert_eq!(answer.header("samekey-actor"), None, "{what}");
}

async fn refuses_all(samekey: &Server, upstream: &Upstream, tokens: Vec<(&str, String)>) {
    let before = upstream.ledger().count();
    for (what, token) in tokens {
        is_invalid(&samekey.send(&order(&keys::v7(), &token)).await, what);
    }
    assert_eq!(upstream.ledger().count(), before, "the handler was not called");
}

#[tokio::test]
async fn every_type_of_key_verifies_its_own_algorithms() {
    let cases: [(&str, &[Algorithm]); 4] =
        [("rsa", &[RS256, RS384, RS512, PS256]), ("p256", &[ES256]), ("p384", &[ES384]), ("ed25519", &[EdDSA])];
    for (key, algorithms) in cases {
        let upstream = Upstream::start().await;
        let samekey = by_key(&upstream, key).start().await;
        let first = samekey.send(&order("k-1", &signed(key, algorithms[0], None, &claims("ann")))).await;
        first.ran(201, "completed", 1);
        for algorithm in algorithms {
            // Another token of the same person, as after a refresh: the key is found again.
            let later = json!({ "sub": "ann", "aud": [AUDIENCE, "other"], "exp": now() + 900, "jti": "2" });
            samekey.send(&order("k-1", &signed(key, *algorithm, Some("whatever"), &later))).await.replays(&first);
        }
        let bob = signed(key, algorithms[0], None, &claims("bob"));
        samekey.send(&order("k-1", &bob)).await.ran(201, "completed", 1);
        assert_eq!(upstream.effects("k-1"), 2, "{key}");
    }
}

#[tokio::test]
async fn a_secret_verifies_hmac_and_nothing_else() {
    let upstream = Upstream::start().await;
    let serve = jwt(&upstream);
    let file = serve.folder().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).expect("a secret");
    let samekey = serve.set("--jwt-key-file", &file.display().to_string()).start().await;
    for (n, algorithm) in [HS256, HS384, HS512].into_iter().enumerate() {
        let answer = samekey.send(&order(&format!("k-{n}"), &signed("secret", algorithm, None, &claims("ann")))).await;
        answer.ran(201, "completed", 1);
    }
    let tokens = vec![
        ("RSA where a secret is expected", signed("rsa", RS256, None, &claims("ann"))),
        ("another secret", forged(b"another secret, just as long as the one", None, &claims("ann"))),
        ("the secret with its line end", forged(format!("{SECRET}\n").as_bytes(), None, &claims("ann"))),
    ];
    refuses_all(&samekey, &upstream, tokens).await;
}

#[tokio::test]
async fn forged_tokens_are_refused_and_nothing_runs() {
    let upstream = Upstream::start().await;
    let samekey = by_key(&upstream, "rsa").start().await;
    let good = signed("rsa", RS256, None, &claims("ann"));
    let (message, signature) = good.rsplit_once('.').expect("a signature");
    let (head, payload) = message.split_once('.').expect("a payload");
    let pem = std::fs::read(public("rsa")).expect("the public key");
    let trimmed = String::from_utf8(pem.clone()).expect("PEM").trim().to_owned();
    let der: Vec<u8> = trimmed.lines().filter(|line| !line.starts_with('-')).collect::<String>().into_bytes();
    let none = |alg: &str| format!("{}.{payload}.", base64url(format!(r#"{{"alg":"{alg}","typ":"JWT"}}"#)));
    let bob = base64url(claims("bob").to_string());
    let head_says =
        |more: &str| signed_raw("rsa", RS256, &format!(r#"{{"alg":"RS256",{more}}}"#), &claims("ann").to_string());
    let nested = signed_raw("rsa", RS256, r#"{"alg":"RS256","cty":"JWT"}"#, &good);
    let mut flipped = signature.to_owned().into_bytes();
    flipped[40] = if flipped[40] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).expect("ASCII");
    let tokens = vec![
        ("alg none", none("none")),
        ("alg None", none("None")),
        ("alg nOnE with the signature", format!("{}{signature}", none("nOnE"))),
        ("alg empty", none("")),
        ("HMAC under the public key's PEM", forged(&pem, None, &claims("ann"))),
        ("HMAC under the trimmed PEM", forged(trimmed.as_bytes(), None, &claims("ann"))),
        ("HMAC under the base64 of the public key", forged(&der, None, &claims("ann"))),
        ("no signature", format!("{message}.")),
        ("no signature and no dot", message.to_owned()),
        ("another signature", format!("{message}.{flipped}")),
        ("a signature cut short", format!("{message}.{}", &signature[..100])),
        ("other claims under the signature", format!("{head}.{bob}.{signature}")),
        ("another RSA key", signed("rsa_other", RS256, None, &claims("ann"))),
        ("an EC key", signed("p256", ES256, None, &claims("ann"))),
        ("an Ed25519 key", signed("ed25519", EdDSA, None, &claims("ann"))),
        ("RS256 that says PS256", signed_raw("rsa", RS256, r#"{"alg":"PS256"}"#, &claims("ann").to_string())),
        ("RS256 that says HS256", signed_raw("rsa", RS256, r#"{"alg":"HS256"}"#, &claims("ann").to_string())),
        ("an unknown critical header", head_says(r#""crit":["exp2"],"exp2":1"#)),
        ("a payload that is not encoded", head_says(r#""crit":["b64"],"b64":false"#)),
        ("a compressed payload", head_says(r#""zip":"DEF""#)),
        ("an encrypted payload", head_says(r#""enc":"A128GCM""#)),
        ("a token within a token", nested),
        ("a JWE", "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.a.b.c.d".into()),
        ("four parts", format!("{good}.x")),
        ("padded", format!("{good}=")),
        ("claims that are no object", signed_raw("rsa", RS256, r#"{"alg":"RS256"}"#, "[]")),
        ("claims that are no JSON", signed_raw("rsa", RS256, r#"{"alg":"RS256"}"#, "sub=ann")),
        ("nothing", String::new()),
        ("dots", "..".into()),
        ("10 kB", "x".repeat(10_000)),
    ];
    refuses_all(&samekey, &upstream, tokens).await;
    samekey.send(&order("k-1", &good)).await.ran(201, "completed", 1);
    let text = samekey.logs.text();
    assert!(!text.contains(payload) && !text.contains(signature), "no token in the logs: {text}");
}

#[tokio::test]
async fn what_a_token_says_is_checked() {
    let upstream = Upstream::start().await;
    let samekey = by_key(&upstream, "p256").set("--jwt-issuer", "https://id.example").start().await;
    let token = |changes: &Value| {
        let mut all = claims("ann");
        all["iss"] = "https://id.example".into();
        for (name, value) in changes.as_object().expect("changes") {
            all[name] = value.clone();
        }
        signed("p256", ES256, None, &all)
    };
    let tokens = vec![
        ("expired", token(&json!({ "exp": now() - 61 }))),
        ("without an end", token(&json!({ "exp": null }))),
        ("with a text as its end", token(&json!({ "exp": "2100-01-01" }))),
        ("not valid yet", token(&json!({ "nbf": now() + 90 }))),
        ("for another audience", token(&json!({ "aud": "bank" }))),
        ("for other audiences", token(&json!({ "aud": ["bank", "SHOP"] }))),
        ("for nobody", token(&json!({ "aud": null }))),
        ("of another issuer", token(&json!({ "iss": "https://id.example/" }))),
        ("of no issuer", token(&json!({ "iss": null }))),
        ("of two issuers", token(&json!({ "iss": ["https://id.example", "x"] }))),
        ("without a subject", token(&json!({ "sub": null }))),
        ("with an empty subject", token(&json!({ "sub": "" }))),
        ("with a list as its subject", token(&json!({ "sub": ["ann"] }))),
        ("with a control character", token(&json!({ "sub": "ann\r\nX: y" }))),
        ("with a novel as its subject", token(&json!({ "sub": "x".repeat(9_000) }))),
    ];
    refuses_all(&samekey, &upstream, tokens).await;
    let fine = samekey.send(&order("k-1", &token(&json!({ "exp": now() - 30 })))).await;
    fine.ran(201, "completed", 1);
    let expired = samekey.send(&order("k-1", &token(&json!({ "exp": now() - 3600 })))).await;
    is_invalid(&expired, "expired, although its answer is stored");
    assert!(expired.problem().detail.contains("expired"), "it says what to do: {}", expired.text());
}

#[tokio::test]
async fn without_a_token_the_challenge_names_no_error() {
    let upstream = Upstream::start().await;
    let samekey = by_key(&upstream, "p256").start().await;
    for request in [Request::order("k").anonymous(), Request::order("k").actor("Basic YW5uOnB3")] {
        let answer = samekey.send(&request).await;
        answer.refuses(401, "actor_required", "sign_in", "none");
        assert_eq!(answer.header("www-authenticate").as_deref(), Some("Bearer realm=\"samekey\""));
    }
    let good = signed("p256", ES256, None, &claims("ann"));
    let two = order("k", &good).header("Authorization", format!("Bearer {good}"));
    is_invalid(&samekey.send(&two).await, "two lines");
    let explained = samekey.logs.line_with("event=\"actor_required\"").await.expect("an explanation");
    assert!(explained.contains("jwt:sub") && explained.contains(AUDIENCE), "{explained}");
    samekey.send(&Request::order("k").anonymous()).await;
    assert_eq!(samekey.logs.text().matches("event=\"actor_required\"").count(), 1, "once");
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn a_set_of_keys_is_chosen_from_by_kid_and_read_anew_when_it_changes() {
    let upstream = Upstream::start().await;
    let (rsa, ec) = (jwk("rsa", RS256, "2026-11"), jwk("p256", ES256, "2026-12"));
    let (serve, file) = by_set(&upstream, &[rsa.clone(), ec.clone()]);
    let samekey = serve.start().await;
    let by_rsa = |kid| signed("rsa", RS256, kid, &claims("ann"));
    let by_ec = |kid| signed("p256", ES256, kid, &claims("ann"));
    let first = samekey.send(&order("k-1", &by_rsa(Some("2026-11")))).await;
    first.ran(201, "completed", 1);
    samekey.send(&order("k-1", &by_ec(Some("2026-12")))).await.replays(&first);
    let tokens = vec![
        ("no kid", by_rsa(None)),
        ("an unknown kid", by_rsa(Some("2026-13"))),
        ("a kid like a path", by_rsa(Some("../../dev/null"))),
        ("the kid of another key", by_rsa(Some("2026-12"))),
        ("the kid of an RSA key under HMAC", forged(SECRET.as_bytes(), Some("2026-11"), &claims("ann"))),
        ("an algorithm that the key's alg excludes", signed("rsa", RS512, Some("2026-11"), &claims("ann"))),
    ];
    refuses_all(&samekey, &upstream, tokens).await;

    std::fs::write(&file, "{\"keys\": [").expect("a broken set");
    let why = samekey.until(&order(&keys::v7(), &by_ec(Some("2027-01"))), |answer| answer.status == 401).await;
    is_invalid(&why, "unknown");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    samekey.send(&order("k-1", &by_ec(Some("2026-12")))).await.replays(&first);
    samekey.logs.line_with("keys.json").await.expect("a line about the broken file");

    write_set(&file, &[ec, jwk("ed25519", EdDSA, "2027-01")]);
    let by_new = order("k-1", &signed("ed25519", EdDSA, Some("2027-01"), &claims("ann")));
    samekey.until(&by_new, |answer| answer.status == 201).await.replays(&first);
    is_invalid(&samekey.send(&order("k-1", &by_rsa(Some("2026-11")))).await, "the key that was taken out");
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn what_is_missing_is_said_at_the_start() {
    let upstream = Upstream::start().await;
    let file = |content: &str| {
        let serve = jwt(&upstream);
        let file = serve.folder().join("key");
        std::fs::write(&file, content).expect("a file");
        serve.set("--jwt-key-file", &file.display().to_string())
    };
    let key = public("rsa").display().to_string();
    let private = key.replace(".pub", ".pem");
    let sub = |serve: Serve| serve.set("--actor", "jwt:sub");
    let cases = [
        (jwt(&upstream), "--jwks-file"),
        (sub(Serve::before(&upstream)).set("--jwt-key-file", &key), "--jwt-audience"),
        (jwt(&upstream).set("--jwt-key-file", "/no/such/file"), "/no/such/file"),
        (jwt(&upstream).set("--jwt-key-file", &private), "private key"),
        (jwt(&upstream).set("--jwks-file", &key), "JSON"),
        (by_key(&upstream, "rsa").set("--jwks-file", &key), "keep one"),
        (file("too short"), "guessed"),
        (Serve::before(&upstream).set("--jwt-key-file", &key), "--actor jwt"),
        (Serve::before(&upstream).set("--actor", "jwt:"), "jwt:sub"),
    ];
    for (serve, hint) in cases {
        let (_, said) = serve.refused().await;
        assert!(said.contains(hint) && !said.contains("panicked"), "{hint}: {said}");
    }
}
