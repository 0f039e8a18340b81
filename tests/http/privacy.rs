//! What must not be found: in the logs, in the files, by other users of the machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{Reply, Request, Serve, Upstream};

const KEY: &str = "key-6b1f0c2d-marker";
const PAYLOAD: &str = "payload-9f2c41d0-marker";
const ANSWER: &str = "answer-77ab03e1-marker";
const TOKEN: &str = "token-c4d1e8a7-marker";
const COOKIE: &str = "cookie-5e9d2b10-marker";

fn secret_order() -> Request {
    let body = format!(r#"{{"card":"{PAYLOAD}"}}"#);
    Request::post("/orders").key(KEY).actor(&format!("Bearer {TOKEN}")).header("Cookie", COOKIE).json(&body)
}

#[tokio::test]
async fn logs_tell_the_decision_and_never_a_secret() {
    for format in ["text", "json"] {
        let upstream = Upstream::start().await;
        let answer = Reply::json(201, &format!(r#"{{"receipt":"{ANSWER}"}}"#)).header("Set-Cookie", COOKIE);
        upstream.next(answer).next(Reply::reset()).next(Reply::json(503, ANSWER));
        let samekey = Serve::before(&upstream).set("--log", format).start().await;
        let first = samekey.send(&secret_order()).await;
        first.ran(201, "completed", 1);
        samekey.send(&secret_order().header("X-Request-Id", "visible-request-id")).await.replays(&first);
        samekey.send(&secret_order().json("{}")).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
        samekey.send(&secret_order().key(format!("{KEY}, two"))).await;
        samekey.send(&Request::post("/x").key(format!("\"{KEY}")).json(PAYLOAD)).await;
        samekey.send(&secret_order().anonymous()).await;
        for path in ["/lost", "/lost", "/late"] {
            let order = Request::post(path).key(KEY).actor(&format!("Bearer {TOKEN}"));
            samekey.send(&order.json(&format!("[\"{PAYLOAD}\"]"))).await;
        }
        let uuid = support::keys::v4();
        samekey.send(&secret_order_with(&uuid, TOKEN)).await;
        samekey.send(&secret_order_with(&uuid, "another-c4d1e8a7-marker")).await;
        samekey.logs.line_with("visible-request-id").await.expect("a line for the delivery, by its request id");
        let (out, logs) = (samekey.out.clone(), samekey.logs.clone());
        samekey.stop().await;
        let text = out.whole().await + &logs.whole().await;
        for secret in ["marker", &uuid] {
            assert!(!text.contains(secret), "{secret} in the logs:\n{text}");
        }
        if format == "json" {
            for line in logs.text().lines() {
                let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                assert!(entry.is_object(), "{line}");
            }
        }
    }
}

fn secret_order_with(key: &str, token: &str) -> Request {
    Request::order(key).actor(&format!("Bearer {token}"))
}

#[tokio::test]
async fn request_bodies_and_credentials_are_never_stored() {
    let upstream = Upstream::start().await;
    upstream.script(|_| Reply::json(201, &format!(r#"{{"receipt":"{ANSWER}"}}"#)).header("Set-Cookie", COOKIE));
    let serve = Serve::before(&upstream);
    let samekey = serve.start().await;
    let first = samekey.send(&secret_order()).await;
    let files = everything_in(serve.folder());
    assert!(found(&files, ANSWER), "the stored answer is in the file: the search finds what is there");
    for secret in [PAYLOAD, TOKEN, COOKIE] {
        assert!(!found(&files, secret), "{secret} while running");
    }
    samekey.send(&secret_order()).await.replays(&first);
    samekey.stop().await;
    let files = everything_in(serve.folder());
    for secret in [PAYLOAD, TOKEN, COOKIE] {
        assert!(!found(&files, secret), "{secret} after the end");
    }
}

#[tokio::test]
async fn the_files_belong_to_their_owner_only() {
    let upstream = Upstream::start().await;
    let open = ["sh", "-c", "umask 000; exec \"$@\"", "sh"];
    let serve = Serve::before(&upstream).through(&open);
    let samekey = serve.start().await;
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(serve.folder()).expect("the folder") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("its mode").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    for name in ["samekey.db", "samekey.db-wal", "samekey.db-shm"] {
        assert!(names.iter().any(|n| n == name), "{name} among {names:?}");
    }
}

fn everything_in(folder: &Path) -> Vec<u8> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.flat_map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file")).collect()
}

fn found(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}
