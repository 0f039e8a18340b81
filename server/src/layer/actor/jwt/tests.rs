use http::{HeaderValue, Request};
use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
use serde_json::json;

use super::super::verifying_keys::KeyFile;
use super::*;

const SECRET: &str = "a secret for the tests of this file only";

fn jwt(claim: &str, issuers: &[&str]) -> Jwt {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    let keys = VerifyingKeys::open(KeyFile::One(file)).unwrap();
    let issuers: Vec<String> = issuers.iter().map(|issuer| (*issuer).to_owned()).collect();
    Jwt::new(Claim::new(claim).unwrap(), keys, &["shop".to_owned(), "till".to_owned()], &issuers)
}

fn token(changes: &Value) -> String {
    let mut claims = json!({ "sub": "ann", "aud": "shop", "exp": get_current_timestamp() + 300 });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes()).unwrap()).unwrap()
}

async fn verified(jwt: &Jwt, changes: &Value) -> Result<String, Refused> {
    jwt.verify(token(changes).as_bytes()).await.map(|actor| actor.as_str().to_owned())
}

#[tokio::test]
async fn times_have_a_minute_of_leeway() {
    let jwt = jwt("sub", &[]);
    let now = get_current_timestamp();
    for (changes, expected) in [
        (json!({}), Ok("ann")),
        (json!({ "exp": now - 50 }), Ok("ann")),
        (json!({ "exp": now - 70 }), Err(Refused::Expired)),
        (json!({ "exp": 0 }), Err(Refused::Expired)),
        (json!({ "exp": null }), Err(Refused::Claims)),
        (json!({ "exp": "tomorrow" }), Err(Refused::Claims)),
        (json!({ "exp": -1 }), Err(Refused::Claims)),
        (json!({ "nbf": now + 50 }), Ok("ann")),
        (json!({ "nbf": now + 70 }), Err(Refused::TooEarly)),
        (json!({ "nbf": "yesterday" }), Err(Refused::Claims)),
        (json!({ "aud": "till" }), Ok("ann")),
        (json!({ "aud": ["other", "shop"] }), Ok("ann")),
        (json!({ "aud": [] }), Err(Refused::Audience)),
        (json!({ "aud": "Shop" }), Err(Refused::Audience)),
        (json!({ "aud": null }), Err(Refused::Claims)),
        (json!({ "aud": 7 }), Err(Refused::Claims)),
    ] {
        let got = verified(&jwt, &changes).await;
        match expected {
            Ok(id) => assert_eq!(got.as_deref(), Ok(id), "{changes}"),
            // The library calls some malformed claims a malformed token.
            Err(Refused::Claims) => {
                assert!(matches!(got, Err(Refused::Claims | Refused::Malformed)), "{changes}: {got:?}");
            }
            Err(why) => assert_eq!(got, Err(why), "{changes}"),
        }
    }
}

#[tokio::test]
async fn the_claim_is_a_name_or_a_pointer() {
    for (claim, changes, expected) in [
        ("sub", json!({ "sub": 17 }), Ok("17")),
        ("sub", json!({ "sub": "" }), Err(Refused::Actor)),
        ("sub", json!({ "sub": " " }), Err(Refused::Actor)),
        ("sub", json!({ "sub": null }), Err(Refused::Actor)),
        ("sub", json!({ "sub": ["ann"] }), Err(Refused::Malformed)),
        ("uid", json!({ "uid": ["ann"] }), Err(Refused::Actor)),
        ("sub", json!({ "sub": 1.5 }), Err(Refused::Actor)),
        ("sub", json!({ "sub": "a\u{0}b" }), Err(Refused::Actor)),
        ("sub", json!({ "sub": "x".repeat(10_000) }), Err(Refused::Actor)),
        ("uid", json!({}), Err(Refused::Actor)),
        ("https://shop.example/uid", json!({ "https://shop.example/uid": "u1" }), Ok("u1")),
        ("/user/id", json!({ "user": { "id": "u1" } }), Ok("u1")),
        ("/user/id", json!({ "user": "u1" }), Err(Refused::Actor)),
        ("/users/0", json!({ "users": ["u1"] }), Ok("u1")),
    ] {
        assert_eq!(verified(&jwt(claim, &[]), &changes).await, expected.map(str::to_owned), "{claim} {changes}");
    }
}

#[tokio::test]
async fn issuers_do_not_share_actors() {
    let any = jwt("sub", &[]);
    let mut ids = Vec::new();
    for (iss, sub) in [
        (json!(null), "17"),
        (json!("a"), "17"),
        (json!("b"), "17"),
        (json!("a"), "b 17"),
        (json!(null), "a 17"),
        (json!(null), " a 17"),
        (json!("a"), " 17"),
    ] {
        ids.push(verified(&any, &json!({ "iss": iss, "sub": sub })).await.unwrap());
    }
    let all = ids.len();
    assert_eq!(ids[..2], ["17", "a 17"]);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "{ids:?}");
    for iss in [json!(""), json!("a b"), json!(["a"]), json!(7)] {
        assert!(verified(&any, &json!({ "iss": iss })).await.is_err(), "{iss}");
    }
    let one = jwt("sub", &["a"]);
    assert_eq!(verified(&one, &json!({ "iss": "a" })).await.unwrap(), "a ann", "the same, whoever is configured");
    assert_eq!(verified(&one, &json!({ "iss": "b" })).await, Err(Refused::Issuer));
    assert!(verified(&one, &json!({})).await.is_err(), "it must say who issued it");
    assert!(verified(&one, &json!({ "iss": ["a", "b"] })).await.is_err());
}

#[tokio::test]
async fn a_signature_of_another_library_is_understood() {
    // RFC 7515, appendix A.1: it lacks aud, which is looked at once the signature matched.
    let k = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let hs256 = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9l\
                 eGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    // Appendix A.3.
    let es256 = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19y\
                 b290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let (x, y) = ("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
    for (token, key) in
        [(hs256, json!({ "kty": "oct", "k": k })), (es256, json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y }))]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        std::fs::write(&file, json!({ "keys": [key] }).to_string()).unwrap();
        let keys = VerifyingKeys::open(KeyFile::Set(file)).unwrap();
        let jwt = Jwt::new(Claim::new("sub").unwrap(), keys, &["shop".to_owned()], &[]);
        assert_eq!(jwt.verify(token.as_bytes()).await, Err(Refused::Claims));
        let tampered = token.replace(".eyJpc3Mi", ".eyJpc3Mj");
        let refused = jwt.verify(tampered.as_bytes()).await;
        assert!(matches!(refused, Err(Refused::Signature)), "{refused:?}");
    }
}

#[tokio::test]
async fn the_scheme_is_bearer_and_stands_there_once() {
    let jwt = jwt("sub", &[]);
    let token = token(&json!({}));
    let lines = |lines: &[String]| {
        let mut parts = Request::post("/").body(()).unwrap().into_parts().0;
        for line in lines {
            parts.headers.append(AUTHORIZATION, HeaderValue::from_str(line).unwrap());
        }
        parts
    };
    for line in [format!("Bearer {token}"), format!("bearer {token}"), format!("BEARER   {token} ")] {
        assert_eq!(jwt.find(&lines(&[line])).await.unwrap().unwrap().as_str(), "ann");
    }
    for line in [format!("Basic {token}"), format!("Bearer{token}"), token.clone(), String::new(), "Bea".into()] {
        assert_eq!(jwt.find(&lines(std::slice::from_ref(&line))).await, Ok(None), "{line}: no token was sent");
    }
    for bad in [
        vec![format!("Bearer {token}"), format!("Bearer {token}")],
        vec![format!("Bearer {token}"), "Basic YTpi".into()],
        vec!["Bearer".into()],
        vec!["Bearer x".into()],
        vec![format!("Bearer {token}, Bearer {token}")],
        vec![format!("Bearer {}", "x".repeat(20_000))],
    ] {
        let problem = jwt.find(&lines(&bad)).await.unwrap_err();
        assert!(problem.invalid_token && problem.code == Code::ActorRequired, "{problem:?}");
    }
}
