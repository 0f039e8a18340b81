//! Leases and timeouts: heartbeats move them, silence ends them, and a claim may bring its own.

use std::time::Duration;

use serde_json::json;
use support::patience::patiently;

use crate::shop::{Shop, invoice, refused, with};

#[tokio::test]
async fn a_silent_holder_is_not_a_dead_one() {
    let shop = Shop::with(|serve| serve.quick().set("--timeout", "20s").set("--probe-after", "21s")).await;
    let silent = shop.won(&invoice("m-1", "h-1")).await;
    let beats = shop.won(&invoice("m-2", "h-1")).await;
    let every = beats.json["heartbeat_every"].as_f64().expect("seconds");
    assert!((0.3..0.4).contains(&every), "a third of the lease: {every}");
    patiently("the end of the lease", async {
        loop {
            beats.says("heartbeat", &json!({})).await;
            let other = shop.claim(&with(invoice("m-1", "h-2"), &json!({ "wait": "0s" }))).await;
            if other.problem().code == "outcome_uncertain" {
                break;
            }
            refused(&other, 409, "operation_in_progress");
            tokio::time::sleep(Duration::from_secs_f64(every)).await;
        }
    })
    .await;
    let problem = refused(&silent.post("heartbeat", &json!({})).await, 409, "claim_stale");
    assert_eq!(problem["state"], "uncertain");
    refused(&silent.post("effects/mail", &json!({})).await, 409, "claim_stale");
    silent.says("complete", &json!({ "result": "it had done it" })).await;
    beats.says("complete", &json!({})).await;
}

#[tokio::test]
async fn a_claim_is_renewed_up_to_its_deadline_and_no_further() {
    let shop = Shop::quick().await;
    let claim = shop.won(&invoice("m-1", "h")).await;
    let deadline = claim.json["deadline"].as_i64();
    patiently("the deadline", async {
        loop {
            let beat = claim.post("heartbeat", &json!({})).await;
            if beat.status == 409 {
                break refused(&beat, 409, "claim_stale");
            }
            let beat = beat.json();
            assert_eq!(beat["deadline"].as_i64(), deadline);
            assert!(beat["lease_until"].as_i64() <= deadline, "{beat}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_claim_may_bring_times_of_its_own() {
    let shop = Shop::quick().await;
    let own = json!({ "lease": "2h", "timeout": "3h" });
    let claim = shop.won(&with(invoice("m-1", "h"), &own)).await;
    let now = claim.json["server_time"].as_i64().expect("a time");
    let minutes = |member: &str| (claim.json[member].as_i64().expect("a time") - now + 30_000) / 60_000;
    assert_eq!((minutes("lease_until"), minutes("deadline")), (120, 180), "{}", claim.json);
    assert_eq!(claim.json["heartbeat_every"], 2400.0);
    let beat = claim.says("heartbeat", &json!({})).await;
    assert_eq!(beat["heartbeat_every"], 2400.0, "the claim's own lease, from its name");
    let again = shop.won(&with(invoice("m-1", "h"), &own)).await;
    assert_eq!(again.id, claim.id);
}
