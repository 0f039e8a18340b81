//! An operator's day: an outcome that nobody knows is found, looked at and settled, and its client hears how it ended.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use support::patience::patiently;
use support::{Reply, Request};

use crate::command::{asking, records};
use crate::shop::{Shop, invoice, refused};

/// The number of the one record.
async fn only_record(shop: &Shop) -> String {
    let list = asking(shop, &["list", "--json"]).await.json();
    assert_eq!(list["records"].as_array().map(Vec::len), Some(1), "{list}");
    list["records"][0]["id"].to_string()
}

#[tokio::test]
async fn an_uncertain_outcome_is_found_looked_at_and_settled() {
    let shop = Shop::quick().await;
    let pay = Request::order("pay-17").header("X-Request-Id", "delivery-1");

    // The service breaks off in the middle of its answer.
    shop.upstream.next(Reply::json(201, "{}").truncated());
    let answer = shop.samekey.send(&pay).await;
    answer.refuses(409, "outcome_uncertain", "follow_status", "uncertain");

    // Whoever is on call finds it: in the list, by state and by what the client reads out.
    let list = asking(&shop, &["list", "--state", "uncertain"]).await.well();
    let (head, row) = list.trim_end().split_once('\n').expect("a table of one record");
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["ID", "OPERATION", "STATE", "ATT", "AGE", "KEY-HASH", "LAST", "NEXT"]);
    assert!(
        row.contains("orders.create  uncertain  1") && row.contains("no answer") && row.contains("manual"),
        "{list}"
    );
    let id = row.split_whitespace().next().expect("its number").to_owned();
    let by_request = asking(&shop, &["list", "--request-id", "delivery-1", "--json"]).await.json();
    assert_eq!(by_request["records"][0]["id"].to_string(), id);
    let of_order = [("operation", "orders.create"), ("state", "uncertain")];
    shop.samekey.until_scraped("samekey_records", &of_order, |records| records == 1.0).await;
    shop.samekey.until_scraped("samekey_uncertain_oldest_timestamp_seconds", &of_order[..1], |since| since > 0.0).await;

    // It is shown with all that happened to it, and how to settle it; never payload or key.
    let shown = asking(&shop, &["show", &id]).await.well();
    for part in ["orders.create", "uncertain (no answer)", "in_progress by delivery", "request delivery-1", "--seen "] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert!(!shown.contains("pay-17") && !shown.contains("tea"), "{shown}");
    let detail = asking(&shop, &["show", &id, "--json"]).await.json();
    let states: Vec<&Value> = detail["timeline"].as_array().expect("steps").iter().map(|step| &step["state"]).collect();
    assert_eq!(states, ["in_progress", "uncertain"]);
    let revision = detail["revision"].as_u64().expect("a revision");

    // Settled on what was looked at before something else happened: refused, and nothing is written.
    let settle = |seen: String, rest: &[&str]| -> Vec<String> {
        let words = ["settle", &id, "--seen", &seen, "--why", "found ch_9 in the provider"];
        words.iter().chain(rest).map(|word| (*word).to_owned()).collect()
    };
    let with = async |words: Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        asking(&shop, &words).await
    };
    let stale = with(settle((revision - 1).to_string(), &["--completed"])).await;
    let said = stale.refused("look at it again");
    assert!(said.contains(&format!("revision {revision} now, not {}", revision - 1)), "{said}");
    assert_eq!(asking(&shop, &["show", &id, "--json"]).await.json()["revision"], revision);

    // Settled on what it is; the client gets its answer, and the record keeps who said so.
    let file = shop.samekey.serve().folder().join("answer.json");
    fs::write(&file, r#"{"id": "ch_9"}"#).expect("an answer");
    let right = &["--completed", "--status", "201", "--body", "@answer.json", "--result-id", "ch_9"];
    let settled = with(settle(revision.to_string(), right)).await.well();
    assert!(settled.contains("completed (201)"), "{settled}");
    assert!(settled.contains("who: ann (token first)   why: found ch_9 in the provider"), "{settled}");
    let replay = shop.samekey.send(&pay).await;
    assert!(replay.replayed(), "{}", replay.text());
    assert_eq!((replay.status, replay.text().as_str()), (201, r#"{"id": "ch_9"}"#));
    assert_eq!(replay.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(shop.upstream.effects("pay-17"), 1);
    let by_result = asking(&shop, &["list", "--result-id", "ch_9", "--json"]).await.json();
    assert_eq!(by_result["records"][0]["state"], "completed");
    with(settle((revision + 1).to_string(), &["--completed"])).await.refused("only what is uncertain is settled");
    assert_eq!(asking(&shop, &["list", "--state", "uncertain"]).await.well(), "no record fits\n");
}

#[tokio::test]
async fn what_nothing_came_of_is_released_once_that_can_be_known() {
    let shop = Shop::quick().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("effects/mail", &json!({})).await;
    claim.says("effects/mail/finish", &json!({ "unknown": true })).await;
    claim.says("uncertain", &json!({ "why": "the line went dead" })).await;
    let id = only_record(&shop).await;
    let show = async || asking(&shop, &["show", &id, "--json"]).await.json();
    let early = show().await;
    assert_eq!((&early["effects_open"], &early["effects"][0]["state"]), (&json!(1), &json!("unknown")), "{early}");
    let (seen, looked_at) = (early["revision"].clone(), early["server_time"].clone());
    let settle = |looked_at: &Value, force: bool| {
        let body = json!({ "revision": seen, "outcome": "released", "who": "ann", "why": "not in the outbox", "force": force });
        crate::shop::with(body, &if looked_at.is_null() { json!({}) } else { json!({ "looked_at": looked_at }) })
    };
    let path = format!("/v1/records/{id}/settle");
    let problem = refused(&shop.post(&path, &settle(&json!(null), false)).await, 400, "request_invalid");
    assert_eq!(problem["member"], "looked_at");
    let problem = refused(&shop.post(&path, &settle(&looked_at, false)).await, 409, "outcome_uncertain");
    assert!(problem["retry_after"].is_u64(), "{problem}");
    let late = patiently("the time after which it may be settled", async {
        loop {
            let now = show().await;
            if now["server_time"].as_i64() >= now["settle_after"].as_i64() {
                break now["server_time"].clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let problem = refused(&shop.post(&path, &settle(&looked_at, false)).await, 409, "outcome_uncertain");
    assert!(
        problem["retry_after"].is_null() && problem["detail"].as_str().is_some_and(|why| why.contains("now")),
        "{problem}"
    );
    let settled = shop.post(&path, &settle(&late, false)).await;
    assert_eq!((settled.status, &settled.json()["state"]), (200, &json!("released")), "{}", settled.text());
    assert_eq!(settled.json()["effects"][0]["state"], "not_applied");
    let again = shop.won(&invoice("m-1", "h")).await;
    assert_eq!(again.json["attempt"], 2);
    assert_eq!(again.says("effects/mail", &json!({})).await["state"], "started", "it may be called again");
}

#[tokio::test]
async fn a_release_by_hand_takes_the_time_that_show_prints_or_force() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("uncertain", &json!({})).await;
    let id = only_record(&shop).await;
    let shown = asking(&shop, &["show", &id]).await.well();
    assert!(shown.contains("until then something may still be under way") && !shown.contains("--released"), "{shown}");
    let seen = shown.split("--seen ").nth(1).and_then(|rest| rest.split(' ').next()).expect("what to copy").to_owned();
    let words = ["settle", &id, "--seen", &seen, "--released", "--why", "not in the outbox"];
    let early = asking(&shop, &words).await.refused("may still be under way");
    assert!(early.contains("s to go"), "{early}");
    let bare = seen.split('@').next().expect("a revision").to_owned();
    let words = ["settle", &id, "--seen", &bare, "--released", "--why", "not in the outbox"];
    asking(&shop, &words).await.refused("say when you looked");
    let forced = [&words[..], &["--force"]].concat();
    let settled = asking(&shop, &forced).await.well();
    assert!(settled.contains("released by operator"), "{settled}");
}

#[tokio::test]
async fn a_failure_found_out_is_told_to_whoever_asks_again() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("uncertain", &json!({})).await;
    let id = only_record(&shop).await;
    let seen = asking(&shop, &["show", &id, "--json"]).await.json()["revision"].to_string();
    let base = ["settle", &id, "--seen", &seen, "--failed", "--why", "bounced"];
    asking(&shop, &base).await.refused("--status");
    asking(&shop, &[&base[..], &["--status", "200"]].concat()).await.refused("not from 400 to 599");
    asking(&shop, &[&base[..], &["--status", "422", "--body", "bounced"]].concat()).await.refused("Content-Type");
    let right = ["--status", "422", "--body", "bounced", "--header", "Content-Type: text/plain"];
    asking(&shop, &[&base[..], &right].concat()).await.well();
    let replay = shop.claim(&invoice("m-1", "h-2")).await.json();
    assert_eq!(
        (&replay["state"], &replay["answer"]["body_base64"]),
        (&json!("failed"), &json!("Ym91bmNlZA==")),
        "{replay}"
    );
}

#[tokio::test]
async fn an_outcome_without_its_answer_is_done_all_the_same() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("uncertain", &json!({})).await;
    let id = only_record(&shop).await;
    let seen = asking(&shop, &["show", &id, "--json"]).await.json()["revision"].to_string();
    let words = ["settle", &id, "--seen", &seen, "--completed", "--result-id", "mail-9", "--why", "in the outbox"];
    asking(&shop, &words).await.well();
    let problem = refused(&shop.claim(&invoice("m-1", "h-2")).await, 409, "response_not_stored");
    assert_eq!((&problem["status_code"], &problem["result_id"]), (&json!(200), &json!("mail-9")));
}

#[tokio::test]
async fn the_store_of_a_server_that_is_down_is_looked_at_and_settled() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("uncertain", &json!({})).await;
    let id = only_record(&shop).await;
    let Shop { samekey, upstream, token } = shop;
    let admin = samekey.admin.to_string();
    let folder = samekey.serve().folder().to_owned();
    let serve = samekey.stop().await;
    let run = async |words: &[&str]| {
        let mut command = tokio::process::Command::new(support::build::samekey());
        command.arg("records").args(words).current_dir(&folder).env("USER", "ann");
        let output = patiently("samekey records", command.output()).await.expect("samekey records");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        crate::command::Said { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    };
    let down = run(&["list", "--admin", &admin]).await.refused("no server answers");
    assert!(down.contains("--store FILE"), "{down}");
    run(&["list", "--store", "nothing.db"]).await.refused("there is no store at nothing.db");
    assert!(!folder.join("nothing.db").exists(), "none is made");
    let list = run(&["list", "--store", "samekey.db", "--key", "m-1"]).await.well();
    assert!(list.contains("invoice.send  uncertain"), "{list}");
    let shown = run(&["show", &id, "--store", "samekey.db", "--json"]).await.json();
    let seen = shown["revision"].to_string();
    let words =
        ["settle", &id, "--store", "samekey.db", "--seen", &seen, "--completed", "--body", "17", "--why", "seen"];
    let settled = run(&words).await.well();
    assert!(settled.contains("who: ann (on the store's file)"), "{settled}");
    let samekey = serve.start().await;
    let shop = Shop { samekey, upstream, token };
    assert_eq!(shop.claim(&invoice("m-1", "h-2")).await.json()["answer"]["result"], 17);
    // A server that runs all the same does not stand in the way.
    let list = records(&shop, &["list", "--store", "samekey.db", "--state", "completed"]).await.well();
    assert!(list.contains("invoice.send  completed"), "{list}");
}

#[tokio::test]
async fn a_command_that_cannot_ask_says_why() {
    let shop = Shop::open().await;
    let folder = shop.samekey.serve().folder();
    records(&shop, &["list", "--admin", "127.0.0.1:1"]).await.refused("no server answers at http://127.0.0.1:1");
    let nobody = asking(&shop, &["list", "--admin-token-file", "other.token"]).await.refused("other.token");
    assert!(nobody.contains("--admin-token-file"), "{nobody}");
    let token = |file: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        fs::write(folder.join(file), text).expect("a token file");
        fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o600)).expect("its mode");
    };
    token("foreign.token", &format!("read {:x<40}\n", ""));
    asking(&shop, &["list", "--admin-token-file", "foreign.token"])
        .await
        .refused("does not know the token of foreign.token");
    token("claims.token", &format!("claim {:y<40}\n", ""));
    asking(&shop, &["list", "--admin-token-file", "claims.token"]).await.refused("no token with the scope read");
    asking(&shop, &["show", "4711"]).await.refused("never made, or is forgotten");
    asking(&shop, &["show", "x"]).await.refused("invalid value");
    asking(&shop, &["settle", "1", "--seen", "1", "--why", "x"]).await.refused("--completed");
    asking(&shop, &["settle", "1", "--completed", "--why", "x"]).await.refused("--seen");
    asking(&shop, &["settle", "1", "--seen", "soon", "--completed", "--why", "x"]).await.refused("records show");
    asking(&shop, &["settle", "1", "--seen", "1", "--completed"]).await.refused("--why");
    asking(&shop, &["list", "--state", "lost"]).await.refused("uncertain");
    asking(&shop, &["list", "--key-hash", "xyz"]).await.refused("hexadecimal");
    let public = shop.samekey.addr.to_string();
    records(&shop, &["list", "--admin", &public]).await.refused("look whether it is one");
}
