//! How a claim ends, what the same end said again answers, and what another one does.

use serde_json::json;

use crate::shop::{Shop, invoice, refused, with};

#[tokio::test]
async fn the_same_end_said_again_is_the_same_answer() {
    let shop = Shop::open().await;
    for (key, call, body, state) in [
        ("m-1", "complete", json!({ "status": 201, "result": { "id": 1 }, "result_id": "1" }), "completed"),
        ("m-2", "complete", json!({}), "completed"),
        ("m-3", "fail", json!({ "status": 422, "result": { "why": "refused" } }), "failed"),
        ("m-4", "release", json!({}), "released"),
        ("m-5", "uncertain", json!({ "why": "the line went dead" }), "uncertain"),
        ("m-6", "complete", json!({ "status": 204 }), "completed"),
        (
            "m-7",
            "complete",
            json!({ "body_base64": "AP8=", "headers": [["Content-Type", "application/octet-stream"]] }),
            "completed",
        ),
    ] {
        let claim = shop.won(&invoice(key, "h")).await;
        let first = claim.says(call, &body).await;
        assert_eq!((&first["state"], &first["attempt"]), (&json!(state), &json!(1)), "{first}");
        let again = claim.says(call, &body).await;
        assert_eq!(again, first, "{call} {body}");
    }
    let binary = shop.claim(&invoice("m-7", "h")).await.json();
    assert_eq!(binary["answer"]["body_base64"], "AP8=");
    assert_eq!(binary["answer"]["headers"], json!([["content-type", "application/octet-stream"]]));
    let failed = shop.claim(&invoice("m-3", "h")).await.json();
    assert_eq!((&failed["state"], &failed["answer"]["status"]), (&json!("failed"), &json!(422)));
}

#[tokio::test]
async fn another_end_is_stale_and_says_how_it_stands() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("complete", &json!({ "status": 201, "result_id": "1" })).await;
    for (call, body) in [
        ("complete", json!({ "status": 200, "result_id": "1" })),
        ("complete", json!({ "status": 201, "result_id": "2" })),
        ("fail", json!({ "status": 422 })),
        ("release", json!({})),
        ("uncertain", json!({})),
        ("heartbeat", json!({})),
        ("effects/mail", json!({})),
    ] {
        let problem = refused(&claim.post(call, &body).await, 409, "claim_stale");
        assert_eq!((&problem["state"], &problem["attempt"]), (&json!("completed"), &json!(1)), "{call}: {problem}");
        assert_eq!(problem["next"], "stop");
    }
    let replay = shop.claim(&invoice("m-1", "h")).await.json();
    assert_eq!((&replay["answer"]["status"], &replay["result_id"]), (&json!(201), &json!("1")), "the first one stands");
}

#[tokio::test]
async fn a_released_key_runs_again_and_the_first_claim_of_it_is_stale() {
    let shop = Shop::open().await;
    let first = shop.won(&invoice("m-1", "h")).await;
    first.says("release", &json!({})).await;
    let second = shop.won(&invoice("m-1", "h")).await;
    assert_eq!(second.json["attempt"], 2);
    assert_ne!(second.id, first.id, "the same holder, another attempt");
    let problem = refused(&first.post("complete", &json!({})).await, 409, "claim_stale");
    assert_eq!((&problem["state"], &problem["attempt"]), (&json!("in_progress"), &json!(2)));
    second.says("release", &json!({ "retry_after": "1h" })).await;
    let later = shop.claim(&invoice("m-1", "h")).await;
    refused(&later, 409, "operation_released");
    assert!(later.retry_after().is_some_and(|after| (3500..=3600).contains(&after)), "{}", later.text());
}

#[tokio::test]
async fn a_late_end_still_counts_where_nobody_knew() {
    let shop = Shop::open().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("uncertain", &json!({ "why": "no answer" })).await;
    refused(&shop.claim(&invoice("m-1", "h-2")).await, 409, "outcome_uncertain");
    refused(&claim.post("heartbeat", &json!({})).await, 409, "claim_stale");
    claim.says("complete", &json!({ "result": "after all" })).await;
    assert_eq!(shop.claim(&invoice("m-1", "h-2")).await.json()["answer"]["result"], "after all");
}

#[tokio::test]
async fn an_answer_that_is_too_large_to_keep_is_done_all_the_same() {
    let shop = Shop::with(|serve| serve.set("--max-response", "1KiB")).await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    let large = json!({ "status": 201, "result": "x".repeat(2000), "result_id": "r" });
    assert_eq!(claim.says("complete", &large).await["state"], "completed");
    let problem = refused(&shop.claim(&invoice("m-1", "h")).await, 409, "response_not_stored");
    assert_eq!((&problem["status_code"], &problem["result_id"]), (&json!(201), &json!("r")));
    let other = shop.won(&invoice("m-2", "h")).await;
    let larger = with(large, &json!({ "result": "x".repeat(200_000) }));
    refused(&other.post("complete", &larger).await, 413, "payload_too_large");
    other.says("heartbeat", &json!({})).await;
}
