//! The answer is lost on its way from samekey to the client: the retry gets the original object.

use crate::sdk::{Given, clients};
use crate::shop::{Mood, Shop};
use std::time::Duration;
use support::Serve;
use support::relay::{Loss, Relay};

#[tokio::test]
async fn a_lost_answer_is_one_charge_and_the_retry_gets_it() {
    for client in clients() {
        for losses in [&[Loss::Reset][..], &[Loss::Cut(0)], &[Loss::Cut(10)], &[Loss::Reset, Loss::Cut(3)]] {
            let shop = Shop::open().await;
            let samekey = Serve::before(&shop.service).start().await;
            let network = Relay::before(samekey.addr).await;
            network.plan(losses);
            let given = client.charge(&network, 4200).await;
            assert!(
                matches!(&given, Given::Made { id, amount: 4200 } if id == "ch_1"),
                "{client:?} {losses:?}: {given:?}"
            );
            assert_eq!(shop.charges(), ["ch_1"], "{client:?} {losses:?}");
            assert_eq!(network.requests(), losses.len() + 1, "the SDK really retried");
        }
    }
}

#[tokio::test]
async fn a_client_that_lost_patience_gets_the_charge_it_already_made() {
    for client in clients() {
        let shop = Shop::open().await;
        shop.moods(&[Mood::Slow(Duration::from_millis(1800))]);
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        let given = client.timeout(Duration::from_secs(1)).retries(4).charge(&network, 100).await;
        assert_eq!(given.id(), "ch_1");
        assert_eq!(shop.charges(), ["ch_1"], "{client:?}");
        assert!(network.requests() >= 2, "it lost patience at least once");
    }
}

#[tokio::test]
async fn a_retry_that_meets_the_first_one_running_is_told_to_come_again() {
    for client in clients() {
        let shop = Shop::open().await;
        shop.moods(&[Mood::Slow(Duration::from_millis(1500))]);
        let samekey = Serve::before(&shop.service).waits("50ms", "1s").start().await;
        let network = Relay::before(samekey.addr).await;
        let twice = r#"{"together":[{"amount":100,"key":"cart-7"},{"amount":100,"key":"cart-7"}]}"#;
        let given = client.retries(6).calls(&network, twice).await;
        assert_eq!((given[0].id(), given[1].id()), ("ch_1", "ch_1"), "{client:?}");
        assert_eq!(shop.charges(), ["ch_1"], "{client:?}");
        assert!(network.requests() >= 3, "409 with Stripe-Should-Retry: true, then the answer");
    }
}

#[tokio::test]
async fn twenty_charges_over_a_bad_network_are_twenty_charges() {
    for client in clients() {
        let shop = Shop::open().await;
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        // Cut within the status line: Python takes any later cut for a whole answer without a body, and retries none.
        network.plan(&[Loss::Reset, Loss::Cut(5), Loss::Reset, Loss::Cut(1), Loss::Cut(0), Loss::Reset, Loss::Reset]);
        let calls: Vec<String> = (1..=20).map(|n| format!(r#"{{"amount":{n}}}"#)).collect();
        let given = client.retries(4).calls(&network, &format!(r#"{{"together":[{}]}}"#, calls.join(","))).await;
        let mut ids: Vec<&str> = given.iter().map(Given::id).collect();
        for (n, given) in given.iter().enumerate() {
            assert!(
                matches!(given, Given::Made { amount, .. } if *amount == n as u64 + 1),
                "its own charge: {given:?}"
            );
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), shop.charges().len()), (20, 20), "{client:?}");
    }
}

#[tokio::test]
async fn the_json_api_is_protected_like_the_form_api() {
    for client in clients() {
        let shop = Shop::open().await;
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        network.plan(&[Loss::Reset]);
        let call = r#"[{"raw":"/v2/core/charges","body":{"amount":700,"note":"tea"},"key":"v2-1"}]"#;
        let given = client.calls(&network, call).await;
        assert_eq!(given[0].id(), "ch_1");
        assert_eq!(shop.charges(), ["ch_1"], "{client:?}");
        assert!(shop.service.ledger().last().headers.one("content-type").expect("a type").contains("json"));
    }
}
