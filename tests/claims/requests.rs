//! What a call must be: strict errors that name the member, tokens with the right scope, names that nobody can guess.

use serde_json::{Value, json};
use support::Request;

use crate::shop::{Shop, invoice, refused, with};

#[tokio::test]
async fn what_is_wrong_with_a_claim_is_named() {
    let shop = Shop::open().await;
    let long = "x".repeat(600);
    for (change, member, hint) in [
        (json!({ "actor": "" }), Some("actor"), "1 to 512"),
        (json!({ "actor": long }), Some("actor"), "1 to 512"),
        (json!({ "actor": 17 }), Some("actor"), "expected a string"),
        (json!({ "operation": "invoice.sned" }), Some("operation"), "samekey.toml"),
        (json!({ "operation": "POST /orders" }), None, ""),
        (json!({ "operation": "POST /other" }), Some("operation"), "not configured"),
        (json!({ "holder": "" }), Some("holder"), "1 to 255"),
        (json!({ "request_id": "a b" }), Some("request_id"), "visible ASCII"),
        (json!({ "lease": "1s" }), Some("lease"), "30s"),
        (json!({ "lease": 120 }), Some("lease"), "expected a string"),
        (json!({ "lease": "120" }), Some("lease"), "120s"),
        (json!({ "timeout": "10d" }), Some("timeout"), "retention"),
        (json!({ "wait": "soon" }), Some("wait"), "30s"),
        (json!({ "fingerprint": "fp1:json" }), None, "exclude each other"),
        (json!({ "content_type": "text/csv" }), Some("content_type"), "leave it out"),
        (json!({ "colour": "red" }), Some("colour"), "unknown field `colour`"),
    ] {
        let answer = shop.claim(&with(invoice("m-1", "h"), &change)).await;
        if hint.is_empty() {
            assert_eq!(answer.status, 201, "{change}: {}", answer.text());
            continue;
        }
        let problem = refused(&answer, 400, "request_invalid");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(hint)), "{change}: {problem}");
        assert_eq!(problem["member"].as_str(), member, "{change}: {problem}");
    }
    for key in ["", "a b", "ü", &long] {
        refused(&shop.claim(&with(invoice("m-1", "h"), &json!({ "key": key }))).await, 400, "idempotency_key_invalid");
    }
    for missing in ["actor", "operation", "key", "holder", "payload"] {
        let mut body = invoice("m-1", "h");
        body.as_object_mut().expect("members").remove(missing);
        let problem = refused(&shop.claim(&body).await, 400, "request_invalid");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(missing)), "{problem}");
    }
}

#[tokio::test]
async fn a_payload_is_json_as_it_was_written_or_bytes_or_a_fingerprint() {
    let shop = Shop::open().await;
    let claims = async |text: &str| {
        let body = format!(
            r#"{{"actor":"ann","operation":"invoice.send","key":"m-1","holder":"h-2","wait":"0s","payload":{text}}}"#
        );
        shop.samekey.admin_as(&shop.token, &Request::post("/v1/claims").json(&body)).await
    };
    let payload = r#"{"n": 9007199254740993, "b": 1.0}"#;
    assert_eq!(claims(payload).await.status, 201);
    assert_eq!(claims(r#"{"b":1,"n":9007199254740993}"#).await.status, 201, "the same number, the same holder");
    refused(&claims(r#"{"n": 9007199254740992, "b": 1.0}"#).await, 409, "key_payload_mismatch");
    let bytes = |key: &str, text: &str, kind: &str| {
        json!({
            "actor": "ann", "operation": "invoice.send", "key": key, "holder": "h", "payload_base64": text,
            "content_type": kind,
        })
    };
    let same = bytes("m-1", "eyJiIjoxLCJuIjo5MDA3MTk5MjU0NzQwOTkzfQ==", "application/json");
    refused(&shop.claim(&with(same, &json!({ "wait": "0s" }))).await, 409, "operation_in_progress");
    assert_eq!(shop.claim(&bytes("m-2", "AP8=", "application/octet-stream")).await.status, 201);
    refused(&shop.claim(&bytes("m-2", "AP4=", "application/octet-stream")).await, 409, "key_payload_mismatch");
    let problem = refused(&shop.claim(&bytes("m-3", "AP8", "text/csv")).await, 400, "request_invalid");
    assert_eq!(problem["member"], "payload_base64");
    let taken = std::process::Command::new(support::build::samekey())
        .args(["fingerprint", "--content-type", "application/json"])
        .arg({
            let file = shop.samekey.serve().folder().join("payload.json");
            std::fs::write(&file, payload).expect("a payload");
            file
        })
        .output()
        .expect("samekey fingerprint");
    let taken = String::from_utf8(taken.stdout).expect("text");
    let by_fingerprint = json!({
        "actor": "ann", "operation": "invoice.send", "key": "m-1", "holder": "h-2", "fingerprint": taken.trim(),
    });
    assert_eq!(shop.claim(&by_fingerprint).await.status, 201, "{taken}");
    let other = with(by_fingerprint, &json!({ "operation": "orders.create" }));
    let problem = refused(&shop.claim(&other).await, 400, "request_invalid");
    assert_eq!(problem["member"], "fingerprint", "it was taken of everything: {problem}");
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let shop = Shop::with(|serve| serve.set("--max-body", "64KiB")).await;
    let large = with(invoice("m-1", "h"), &json!({ "payload": "x".repeat(65 << 10) }));
    let problem = refused(&shop.claim(&large).await, 413, "payload_too_large");
    assert_eq!(problem["max_body"], 64 << 10);
    let larger = with(invoice("m-1", "h"), &json!({ "payload": "x".repeat(300 << 10) }));
    refused(&shop.claim(&larger).await, 413, "payload_too_large");
    assert_eq!(shop.claim(&with(invoice("m-1", "h"), &json!({ "payload": "x".repeat(60 << 10) }))).await.status, 201);
}

#[tokio::test]
async fn nobody_guesses_the_name_of_a_claim() {
    let shop = Shop::open().await;
    let mine = shop.won(&invoice("m-1", "h")).await;
    let theirs = shop.won(&with(invoice("m-1", "h"), &json!({ "actor": "bob" }))).await;
    assert_ne!(mine.id, theirs.id, "the same key and holder of another actor");
    let half = mine.id.len() / 2;
    let mixed = format!("{}{}", &mine.id[..half], &theirs.id[half..]);
    for id in ["x", "0", &mixed, &mine.id[1..], "%FF", "%00"] {
        for call in ["complete", "heartbeat", "effects/mail"] {
            let answer = shop.post(&format!("/v1/claims/{id}/{call}"), &json!({})).await;
            refused(&answer, 404, "claim_not_found");
        }
    }
    mine.says("complete", &json!({})).await;
    theirs.says("heartbeat", &json!({})).await;
}

#[tokio::test]
async fn a_call_that_takes_nothing_takes_nothing() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    for (call, body) in [
        ("heartbeat", json!({ "x": 1 })),
        ("heartbeat", json!([1])),
        ("release", json!({ "retry_after": 30 })),
        ("uncertain", json!({ "reason": "?" })),
        ("effects/mail", json!({ "inputs": 1 })),
        ("effects/mail/finish", json!({})),
        ("effects/mail/finish", json!({ "result": 1, "unknown": true })),
        ("effects/mail/finish", json!({ "not_applied": true, "unknown": true })),
        ("complete", json!({ "result": 1, "body_base64": "AA==" })),
        ("complete", json!({ "status": 404 })),
        ("complete", json!({ "status": 100 })),
        ("complete", json!({ "status": "200" })),
        ("complete", json!({ "headers": [["a b", "c"]] })),
        ("complete", json!({ "headers": [["a", "c\n"]] })),
        ("complete", json!({ "result": 1, "headers": [["Content-Type", "text/plain"]] })),
        ("complete", json!({ "result_id": "" })),
        ("fail", json!({ "status": 200 })),
        ("fail", json!({ "result": 1 })),
    ] {
        refused(&claim.post(call, &body).await, 400, "request_invalid");
    }
    let empty = Request::post(&format!("/v1/claims/{}/heartbeat", claim.id));
    assert_eq!(shop.samekey.admin_as(&shop.token, &empty).await.status, 200, "an empty body is {{}}");
    let broken = Request::post(&format!("/v1/claims/{}/heartbeat", claim.id)).json("{");
    refused(&shop.samekey.admin_as(&shop.token, &broken).await, 400, "request_invalid");
}

#[tokio::test]
async fn each_token_does_what_its_scopes_say() {
    let tokens = ["claim", "read", "settle"].map(|scope| (scope, format!("{scope:x<32}")));
    let shop = Shop::with(|serve| {
        use std::os::unix::fs::PermissionsExt;
        let file = serve.folder().join("samekey.token");
        let made = "claim,read,settle samekey_00000000000000000000000000000000\n".to_owned();
        let text = tokens.iter().fold(made, |text, (scope, token)| format!("{text}{scope} {token}\n"));
        std::fs::write(&file, text).expect("a token file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        serve
    })
    .await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    for (path, body, needs) in [
        ("/v1/claims".to_owned(), Some(invoice("m-2", "h")), "claim"),
        (format!("/v1/claims/{}/heartbeat", claim.id), Some(json!({})), "claim"),
        (format!("/v1/claims/{}/complete", claim.id), Some(json!({})), "claim"),
    ] {
        for (scope, token) in &tokens {
            let request = match &body {
                Some(body) => Request::post(&path).json(&body.to_string()),
                None => Request::new("GET", &path),
            };
            let answer = shop.samekey.admin_as(token, &request).await;
            if *scope == needs {
                assert!(answer.status < 300, "{path} with {scope}: {}", answer.text());
            } else {
                let problem: Value = refused(&answer, 403, "forbidden");
                assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(needs)), "{problem}");
            }
        }
    }
}

/// What a delivery over HTTP would hear, a claim hears.
#[tokio::test]
async fn a_claim_is_refused_as_a_delivery_is() {
    let shop = Shop::with(|serve| serve.set("--quota", "1").set("--profile", "ietf")).await;
    let old = support::keys::v7_aged(std::time::Duration::from_secs(31 * 86_400));
    refused(&shop.claim(&invoice(&old, "h")).await, 410, "key_expired");
    let first = shop.won(&invoice("m-1", "h")).await;
    let busy = shop.claim(&invoice("m-2", "h")).await;
    refused(&busy, 429, "quota_exceeded");
    assert!(busy.retry_after().is_some_and(|after| after > 0));
    let other = with(invoice("m-1", "h"), &json!({ "payload": 1 }));
    refused(&shop.claim(&other).await, 422, "key_payload_mismatch");
    first.says("complete", &json!({})).await;
    let closed = Request::new("DELETE", "/.well-known/samekey/status?operation=invoice.send").key("m-3");
    assert_eq!(shop.samekey.send(&closed).await.status, 200);
    let theirs = shop.get("/v1/records?state=expired").await.json();
    assert_eq!(theirs["records"][0]["ended"], "closed");
    let full = Shop::with(|serve| serve.set("--min-free", "1000TiB")).await;
    refused(&full.claim(&invoice("m-1", "h")).await, 503, "overloaded");
}
