//! Finding records: by everything that somebody may read out, in pages, and not otherwise.

use serde_json::{Value, json};
use support::Request;

use crate::command::asking;
use crate::shop::{Shop, invoice, refused, with};

fn ids(page: &Value) -> Vec<i64> {
    page["records"].as_array().expect("records").iter().map(|record| record["id"].as_i64().expect("an id")).collect()
}

#[tokio::test]
async fn a_record_is_found_by_whatever_is_known_of_it() {
    let shop = Shop::open().await;
    let mine = shop.won(&with(invoice("m-1", "h"), &json!({ "request_id": "r-1" }))).await;
    mine.says("complete", &json!({ "status": 201, "result_id": "mail-9" })).await;
    let theirs = shop.won(&with(invoice("m-1", "h"), &json!({ "actor": "bob", "request_id": "r-2" }))).await;
    theirs.says("release", &json!({})).await;
    let again = shop.won(&with(invoice("m-1", "h"), &json!({ "actor": "bob", "request_id": "r-3" }))).await;
    let order = json!({ "actor": "ann", "operation": "orders.create", "key": "o-1", "payload": 1, "holder": "h" });
    let order = shop.won(&order).await;
    let number = |claim: &crate::shop::Claim<'_>| claim.json["record"].as_i64().expect("a number");
    let (mine, theirs, order) = (number(&mine), number(&again), number(&order));
    let all = shop.get("/v1/records").await.json();
    assert_eq!(ids(&all), [order, theirs, mine], "the newest first");
    let of =
        |id: i64| all["records"].as_array().expect("records").iter().find(|record| record["id"] == id).expect("it");
    let hash = |id: i64, member: &str| of(id)[member].as_str().expect("a hash").to_owned();
    for (query, found) in [
        ("state=completed".to_owned(), vec![mine]),
        ("state=in_progress".into(), vec![order, theirs]),
        ("state=uncertain".into(), vec![]),
        ("operation=invoice.send".into(), vec![theirs, mine]),
        ("operation=invoice.send&state=completed".into(), vec![mine]),
        ("actor=bob".into(), vec![theirs]),
        ("request_id=r-1".into(), vec![mine]),
        ("request_id=r-2".into(), vec![theirs]),
        ("request_id=r-3".into(), vec![theirs]),
        ("result_id=mail-9".into(), vec![mine]),
        (format!("key_hash={}", hash(order, "key_hash")), vec![order]),
        (format!("key_hash={}", &hash(mine, "key_hash")[..6]), vec![theirs, mine]),
        (format!("actor_hash={}", hash(theirs, "actor_hash")), vec![theirs]),
        ("older_than=1h".into(), vec![]),
        ("newer_than=1h".into(), vec![order, theirs, mine]),
    ] {
        assert_eq!(ids(&shop.get(&format!("/v1/records?{query}")).await.json()), found, "{query}");
    }
    let by_key = Request::new("GET", "/v1/records?state=completed").key("m-1");
    assert_eq!(ids(&shop.samekey.admin_as(&shop.token, &by_key).await.json()), [mine]);
    let by_key = asking(&shop, &["list", "--key", "m-1", "--json"]).await.json();
    assert_eq!(ids(&by_key), [theirs, mine]);
    let text = shop.get("/v1/records").await.text();
    assert!(
        !text.contains("m-1") && !text.contains("\"ann\"") && !text.contains("\"bob\""),
        "neither key nor actor: {text}"
    );
    for bad in ["state=lost", "colour=red", "limit=0", "older_than=3", "state=failed&state=failed"] {
        refused(&shop.get(&format!("/v1/records?{bad}")).await, 400, "request_invalid");
    }
    for bad in ["0", "x", "9223372036854775808", "%FF", "1%00"] {
        refused(&shop.get(&format!("/v1/records/{bad}")).await, 404, "claim_not_found");
    }
}

#[tokio::test]
async fn a_long_list_comes_in_pages_and_none_is_missing() {
    let shop = Shop::open().await;
    let mut made = Vec::new();
    for number in 0..7 {
        let claim = shop.won(&invoice(&format!("m-{number}"), "h")).await;
        made.push(claim.json["record"].as_i64().expect("a number"));
        if number % 2 == 0 {
            claim.says("complete", &json!({})).await;
        }
    }
    made.reverse();
    for (query, expected) in [
        ("limit=3", made.clone()),
        ("limit=3&state=completed", made.iter().copied().step_by(2).collect()),
        ("limit=2&state=in_progress", made.iter().copied().skip(1).step_by(2).collect()),
    ] {
        let (mut found, mut before) = (Vec::new(), String::new());
        loop {
            let page = shop.get(&format!("/v1/records?{query}{before}")).await.json();
            found.extend(ids(&page));
            match page["more"].as_i64() {
                Some(more) => before = format!("&before={more}"),
                None => break,
            }
        }
        assert_eq!(found, expected, "{query}");
    }
    let listed = asking(&shop, &["list", "--limit", "2"]).await.well();
    assert!(listed.contains("there may be more"), "{listed}");
    let listed = asking(&shop, &["list", "--limit", "7"]).await.well();
    assert!(!listed.contains("there may be more"), "{listed}");
}

#[tokio::test]
async fn a_timeline_tells_every_attempt() {
    let shop = Shop::open().await;
    let first = shop.won(&with(invoice("m-1", "h"), &json!({ "request_id": "r-1" }))).await;
    first.says("effects/mail", &json!({})).await;
    first.says("effects/mail/finish", &json!({ "not_applied": true })).await;
    first.says("release", &json!({})).await;
    let second = shop.won(&with(invoice("m-1", "h"), &json!({ "request_id": "r-2" }))).await;
    second.says("uncertain", &json!({ "why": "the line went dead" })).await;
    second.says("complete", &json!({ "result": 1 })).await;
    let shown = shop.get(&format!("/v1/records/{}", second.json["record"])).await.json();
    let steps: Vec<Value> = shown["timeline"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| json!([step["attempt"], step["state"], step["by"], step["request_id"], step["why"]]))
        .collect();
    assert_eq!(
        steps,
        [
            json!([1, "in_progress", "delivery", "r-1", null]),
            json!([1, "released", "handler", "r-1", null]),
            json!([2, "in_progress", "delivery", "r-2", null]),
            json!([2, "uncertain", "handler", "r-2", "the line went dead"]),
            json!([2, "completed", "handler", "r-2", null]),
        ]
    );
    let effect = &shown["effects"][0];
    assert_eq!(
        (&effect["name"], &effect["state"], &effect["attempt"]),
        (&json!("mail"), &json!("not_applied"), &json!(1))
    );
    assert_eq!(effect["provider_key"].as_str().map(str::len), Some(32));
    assert_eq!((&shown["response_stored"], &shown["next"]), (&json!(true), &json!("nobody")));
}
