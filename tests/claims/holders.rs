//! Who gets a claim: one holder, and the same one again.

use serde_json::json;
use support::Request;

use crate::shop::{Shop, invoice, refused, with};

#[tokio::test]
async fn a_claim_says_all_that_its_holder_needs() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    let json = &claim.json;
    assert_eq!((&json["state"], &json["attempt"]), (&json!("in_progress"), &json!(1)));
    let now = json["server_time"].as_i64().expect("a time");
    let in_ms = |member: &str| json[member].as_i64().expect("a time") - now;
    assert!((29_000..=30_000).contains(&in_ms("lease_until")), "{json}");
    assert!((59_000..=60_000).contains(&in_ms("deadline")), "{json}");
    assert_eq!(json["heartbeat_every"], 10.0);
    assert_eq!(json["provider_key"].as_str().map(str::len), Some(32), "{json}");
    assert!(json["record"].is_i64());
}

#[tokio::test]
async fn of_two_holders_one_works_and_the_other_hears_how_it_ended() {
    let shop = Shop::open().await;
    let first = shop.won(&invoice("m-1", "h-1")).await;
    let busy = shop.claim(&with(invoice("m-1", "h-2"), &json!({ "wait": "0s" }))).await;
    let problem = refused(&busy, 409, "operation_in_progress");
    assert_eq!((&problem["next"], busy.retry_after()), (&json!("wait"), Some(1)));
    let waits = invoice("m-1", "h-2");
    let (waited, ()) = tokio::join!(shop.claim(&waits), async {
        // Whoever waits has asked before this one ends.
        let again = shop.claim(&with(invoice("m-1", "h-3"), &json!({ "wait": "0s" }))).await;
        refused(&again, 409, "operation_in_progress");
        first.says("complete", &json!({ "status": 201, "result": { "id": "mail-9" }, "result_id": "mail-9" })).await;
    });
    assert_eq!(waited.status, 200, "{}", waited.text());
    let json = waited.json();
    assert_eq!(
        (&json["state"], &json["attempt"], &json["result_id"]),
        (&json!("completed"), &json!(1), &json!("mail-9"))
    );
    let headers = json!([["content-type", "application/json"]]);
    assert_eq!(json["answer"], json!({ "status": 201, "headers": headers, "result": { "id": "mail-9" } }));
}

#[tokio::test]
async fn the_same_holder_gets_the_same_claim_again() {
    let shop = Shop::open().await;
    let first = shop.won(&invoice("m-1", "h-1")).await;
    let again = shop.won(&invoice("m-1", "h-1")).await;
    assert_eq!((&again.id, again.json["attempt"].as_u64()), (&first.id, Some(1)));
    assert_eq!(again.json["provider_key"], first.json["provider_key"]);
    let other = shop.won(&invoice("m-2", "h-1")).await;
    assert_ne!(other.id, first.id, "of another key it is another claim");
    let alias = shop.won(&with(invoice("m-1", "h-1"), &json!({ "operation": "invoice.mail" }))).await;
    assert_eq!(alias.id, first.id, "a former name is the same operation");
}

/// The answer is lost on its way: nobody reads it.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_asked_for_again() {
    let shop = Shop::open().await;
    let request = Request::post("/v1/claims").json(&invoice("m-1", "h-1").to_string());
    let request = request.actor(&format!("Bearer {}", shop.token));
    let mut client = support::Connection::open(shop.samekey.admin).await;
    client.send(&request.bytes()).await;
    support::patience::patiently("the record", async {
        while shop.get("/v1/records?state=in_progress").await.json()["records"] == json!([]) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    drop(client);
    let again = shop.won(&invoice("m-1", "h-1")).await;
    again.says("complete", &json!({})).await;
}

#[tokio::test]
async fn a_claim_goes_to_any_server_of_the_store_and_outlives_one() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h-1")).await;
    claim.says("effects/mail", &json!({})).await;
    let other = shop.samekey.serve().start().await;
    let post = async |server: &support::Server, call: &str, body: &serde_json::Value| {
        let request = Request::post(&format!("/v1/claims/{}/{call}", claim.id)).json(&body.to_string());
        server.admin_as(&shop.token, &request).await
    };
    let beat = post(&other, "heartbeat", &json!({})).await;
    assert_eq!(beat.status, 200, "{}", beat.text());
    let restarted = other.kill().await.start().await;
    assert_eq!(post(&restarted, "effects/mail/finish", &json!({ "result": "m" })).await.status, 200);
    let ended = post(&restarted, "complete", &json!({ "result": {} })).await;
    assert_eq!((ended.status, &ended.json()["state"]), (200, &json!("completed")), "{}", ended.text());
    assert_eq!(shop.claim(&invoice("m-1", "h-2")).await.status, 200, "the first server knows it, too");
}

#[tokio::test]
async fn deliveries_over_http_and_claims_meet_on_one_record() {
    let shop = Shop::with(|serve| serve.set("--actor", "header:X-User").set("--default-wait", "0s")).await;
    let order = Request::post("/orders").key("k-1").json(r#"{"sku": "tea", "ui": 1}"#).header("X-User", "ann");
    let order_claim = json!({
        "actor": "ann", "operation": "orders.create", "key": "k-1", "payload": { "ui": 2, "sku": "tea" }, "holder": "h",
    });
    let claim = shop.won(&order_claim).await;
    shop.samekey.send(&order).await.refuses(409, "operation_in_progress", "wait", "in_progress");
    claim
        .says("complete", &json!({ "status": 201, "result": { "id": 7 }, "headers": [["Location", "/orders/7"]] }))
        .await;
    let replay = shop.samekey.send(&order).await;
    assert!(replay.replayed());
    assert_eq!((replay.status, replay.text().as_str()), (201, r#"{"id":7}"#));
    assert_eq!(replay.header("location").as_deref(), Some("/orders/7"));
    assert_eq!(shop.upstream.effects("k-1"), 0);
    let order = Request::post("/orders").key("k-2").json(r#"{"sku": "tea"}"#).header("X-User", "ann");
    shop.samekey.send(&order).await.ran(201, "completed", 1);
    let replay = shop.claim(&with(order_claim.clone(), &json!({ "key": "k-2" }))).await;
    assert_eq!((replay.status, &replay.json()["answer"]["status"]), (200, &json!(201)), "{}", replay.text());
    let other = with(order_claim, &json!({ "key": "k-2", "payload": { "sku": "coffee" } }));
    refused(&shop.claim(&other).await, 409, "key_payload_mismatch");
}
