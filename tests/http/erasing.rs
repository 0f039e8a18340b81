//! What is found of a caller in database, backup and logs: what the contract says, and nothing once they were erased.

use std::path::Path;
use std::process::Output;
use support::{Reply, Request, Serve, Upstream, keys};

const PAYLOAD: &str = "payload-2be7-marker";
const ANSWER: &str = "answer-91cc-marker";
const TOKEN: &str = "token-7d20-marker";
const COOKIE: &str = "cookie-4fe1-marker";
const RESULT: &str = "result-08a4-marker";
const ANN: &str = "ann-63b5-marker@example.com";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn of_ann(key: &str) -> Request {
    let order = Request::order(key).actor(&format!("Bearer {TOKEN}")).header("X-User", ANN).header("Cookie", COOKIE);
    order.json(&format!(r#"{{"card":"{PAYLOAD}"}}"#))
}

fn bytes_in(folder: &Path) -> Vec<u8> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    entries.flat_map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file")).collect()
}

fn holds(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

#[tokio::test]
async fn the_files_hold_what_the_contract_says_and_nothing_of_an_erased_caller() {
    let upstream = Upstream::start().await;
    upstream.script(|_| {
        let answer = Reply::json(201, &format!(r#"{{"receipt":"{ANSWER}"}}"#)).header("Set-Cookie", COOKIE);
        answer.header("Location", format!("/orders/{RESULT}"))
    });
    let serve = Serve::before(&upstream).set("--actor", "header:X-User");
    let samekey = serve.start().await;
    let (v7, plain) = (keys::v7(), "order-17-of-somebody".to_owned());
    for key in [&v7, &plain] {
        samekey.send(&of_ann(key)).await.ran(201, "completed", 1);
    }
    samekey.send(&Request::order(&v7).header("X-User", "bob")).await.ran(201, "completed", 1);

    let backups = tempfile::tempdir().expect("another folder");
    let copy = backups.path().join("copy.db").display().to_string();
    let copied = serve.command(&["backup", &copy]);
    assert!(copied.status.success(), "{}", said(&copied));
    let (files, backup) = (bytes_in(serve.folder()), bytes_in(backups.path()));
    for kept in [ANN, ANSWER, RESULT] {
        assert!(holds(&files, kept) && holds(&backup, kept), "{kept} is kept while it is replayed");
    }
    for never in [PAYLOAD, TOKEN, COOKIE] {
        assert!(!holds(&files, never) && !holds(&backup, never), "{never} is never stored");
    }

    // Bob's answer holds the same marks: erased, too, so that what is left would be Ann's.
    for (who, records) in [(ANN, "2 records"), ("bob", "1 record")] {
        let erased = serve.command(&["records", "erase", "--actor", who]);
        assert!(erased.status.success() && said(&erased).contains(records), "{}", said(&erased));
    }
    let files = bytes_in(serve.folder());
    for gone in [ANN, ANSWER, RESULT, PAYLOAD, TOKEN, COOKIE] {
        assert!(!holds(&files, gone), "{gone} while the server runs");
    }
    for key in [&v7, &plain] {
        samekey.send(&of_ann(key)).await.refuses(409, "response_not_stored", "done", "completed");
    }
    let (out, logs) = (samekey.out.clone(), samekey.logs.clone());
    samekey.stop().await;
    let text = out.whole().await + &logs.whole().await;
    let files = bytes_in(serve.folder());
    for secret in [ANN, ANSWER, PAYLOAD, TOKEN, COOKIE] {
        assert!(!text.contains(secret), "{secret} in the logs: {text}");
        assert!(!holds(&files, secret), "{secret} after the end");
    }
    assert_eq!(upstream.ledger().all().len(), 3, "nothing ran a second time");
}

#[tokio::test]
async fn a_caller_known_by_credentials_is_erased_by_them() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let samekey = serve.start().await;
    let order = Request::order("k").actor(&format!("Bearer {TOKEN}"));
    samekey.send(&order).await.ran(201, "completed", 1);
    let file = serve.folder().join("credentials");
    std::fs::write(&file, "Bearer somebody-else\n").expect("a file");
    let nobody = serve.command(&["records", "erase", "--credentials-file", "credentials"]);
    assert!(nobody.status.success() && said(&nobody).contains("no record"), "{}", said(&nobody));
    std::fs::write(&file, format!("Bearer {TOKEN}\n")).expect("a file");
    let erased = serve.command(&["records", "erase", "--credentials-file", "credentials"]);
    assert!(erased.status.success() && said(&erased).contains("1 record"), "{}", said(&erased));
    samekey.send(&order).await.refuses(409, "response_not_stored", "done", "completed");
    let unsaid = serve.command(&["records", "erase"]);
    assert!(!unsaid.status.success() && said(&unsaid).contains("--actor"), "{}", said(&unsaid));
    samekey.stop().await;
}
