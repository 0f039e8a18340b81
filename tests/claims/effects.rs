//! Calls of external systems under a claim: made once, or nobody knows.

use serde_json::json;

use crate::shop::{Shop, invoice, refused, with};

#[tokio::test]
async fn an_effect_is_started_and_finished_and_given_again() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    let started = claim.says("effects/mail", &json!({})).await;
    assert_eq!(started["state"], "started");
    let key = started["provider_key"].as_str().expect("a key").to_owned();
    assert_eq!(claim.says("effects/mail", &json!({})).await, started, "its answer may have been lost");
    let result = json!({ "id": "mail-9", "n": 9_007_199_254_740_993_u64 });
    for _ in 0..2 {
        let finished = claim.says("effects/mail/finish", &json!({ "result": result })).await;
        assert_eq!(finished, json!({ "state": "finished", "provider_key": key, "result": result }));
    }
    let again = claim.says("effects/mail", &json!({})).await;
    assert_eq!(again, json!({ "state": "finished", "provider_key": key, "result": result }), "it is not called again");
    let other = claim.says("effects/letter", &json!({})).await;
    assert_ne!(other["provider_key"], started["provider_key"]);
    for body in [json!({ "result": "other" }), json!({ "not_applied": true }), json!({ "unknown": true })] {
        let problem = refused(&claim.post("effects/mail/finish", &body).await, 409, "claim_stale");
        assert_eq!(problem["state"], "in_progress");
    }
    claim.says("effects/letter/finish", &json!({ "result": null })).await;
    assert_eq!(claim.says("effects/letter", &json!({})).await["result"], json!(null));
    claim.says("complete", &json!({ "result": result })).await;
}

#[tokio::test]
async fn a_later_attempt_gets_the_result_of_an_earlier_one() {
    let shop = Shop::open().await;
    let first = shop.won(&invoice("m-1", "h")).await;
    let started = first.says("effects/mail", &json!({ "input": { "to": "ann", "n": 1 } })).await;
    first.says("effects/mail/finish", &json!({ "result": "mail-9" })).await;
    first.says("release", &json!({})).await;
    let second = shop.won(&invoice("m-1", "h")).await;
    let again = second.says("effects/mail", &json!({ "input": { "n": 1.0, "to": "ann" } })).await;
    assert_eq!((&again["state"], &again["result"]), (&json!("finished"), &json!("mail-9")));
    assert_eq!(again["provider_key"], started["provider_key"], "the same on every attempt");
    for input in [json!({ "input": { "to": "bob" } }), json!({})] {
        let problem = refused(&second.post("effects/mail", &input).await, 400, "request_invalid");
        assert_eq!(problem["member"], "input");
    }
}

#[tokio::test]
async fn what_was_not_applied_may_be_called_again() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("effects/mail", &json!({})).await;
    let refused_call = claim.says("effects/mail/finish", &json!({ "not_applied": true })).await;
    assert_eq!(refused_call["state"], "not_applied");
    assert_eq!(claim.says("effects/mail", &json!({})).await["state"], "started");
    claim.says("effects/mail/finish", &json!({ "result": 1 })).await;
}

#[tokio::test]
async fn while_an_effect_is_unfinished_nothing_is_said_of_the_whole() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("effects/mail", &json!({})).await;
    claim.says("effects/letter", &json!({})).await;
    claim.says("effects/letter/finish", &json!({ "result": 1 })).await;
    for (call, body) in [("complete", json!({})), ("fail", json!({ "status": 422 })), ("release", json!({}))] {
        let problem = refused(&claim.post(call, &body).await, 409, "effect_unfinished");
        assert_eq!((&problem["effects"], &problem["next"]), (&json!(["mail"]), &json!("stop")), "{problem}");
    }
    assert_eq!(claim.says("heartbeat", &json!({})).await["heartbeat_every"], 10.0, "the claim goes on");
    claim.says("effects/mail/finish", &json!({ "result": 1 })).await;
    claim.says("complete", &json!({})).await;
}

#[tokio::test]
async fn an_effect_of_which_nobody_knows_is_not_called_again() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("effects/mail", &json!({})).await;
    assert_eq!(claim.says("effects/mail/finish", &json!({ "unknown": true })).await["state"], "unknown");
    assert_eq!(claim.says("effects/mail", &json!({})).await["state"], "unknown");
    for (call, body) in [("fail", json!({ "status": 422 })), ("release", json!({}))] {
        refused(&claim.post(call, &body).await, 409, "outcome_uncertain");
    }
    refused(&shop.claim(&invoice("m-1", "h-2")).await, 409, "outcome_uncertain");
    claim.says("effects/mail/finish", &json!({ "result": "it arrived" })).await;
    claim.says("complete", &json!({})).await;
    let success = shop.won(&invoice("m-2", "h")).await;
    success.says("effects/mail", &json!({})).await;
    success.says("effects/mail/finish", &json!({ "unknown": true })).await;
    success.says("complete", &json!({})).await;
}

#[tokio::test]
async fn a_second_call_may_be_told_from_a_repeated_start() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    assert_eq!(claim.says("effects/mail", &json!({ "call": "1" })).await["state"], "started");
    assert_eq!(claim.says("effects/mail", &json!({ "call": "1" })).await["state"], "started");
    assert_eq!(claim.says("effects/mail", &json!({ "call": "2" })).await["state"], "unknown");
}

#[tokio::test]
async fn results_are_bounded_and_must_have_been_started() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    refused(&claim.post("effects/mail/finish", &json!({ "result": 1 })).await, 404, "claim_not_found");
    claim.says("effects/mail", &json!({})).await;
    let large = json!({ "result": "x".repeat(65 << 10) });
    let problem = refused(&claim.post("effects/mail/finish", &large).await, 413, "payload_too_large");
    assert_eq!(problem["max_result"], 64 << 10);
    claim.says("effects/mail/finish", &with(large, &json!({ "result": "mail-9" }))).await;
    let name = "x".repeat(65);
    refused(&claim.post(&format!("effects/{name}"), &json!({})).await, 400, "request_invalid");
    assert_eq!(claim.says("effects/a%2Fb", &json!({})).await["state"], "started");
}
