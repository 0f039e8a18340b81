//! The service itself misbehaves: one charge, and the SDK tells its caller the truth.

use crate::sdk::{Given, clients};
use crate::shop::{Mood, Shop};
use support::Serve;
use support::relay::Relay;

#[tokio::test]
async fn an_answer_the_service_lost_is_one_charge_and_an_error_without_retries() {
    for client in clients() {
        for mood in [Mood::Resets, Mood::Truncates, Mood::Gateway] {
            let shop = Shop::open().await;
            shop.moods(&[mood]);
            let samekey = Serve::before(&shop.service).start().await;
            let network = Relay::before(samekey.addr).await;
            let given = client.charge(&network, 100).await;
            given.raised(409, "outcome_uncertain");
            assert_eq!(shop.charges(), ["ch_1"], "{client:?} {mood:?}");
            assert_eq!(network.requests(), 1, "Stripe-Should-Retry: false");
        }
    }
}

#[tokio::test]
async fn a_500_after_the_charge_is_one_charge_and_the_services_own_error() {
    for client in clients() {
        let shop = Shop::open().await;
        shop.moods(&[Mood::Breaks]);
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        let given = client.charge(&network, 100).await;
        assert!(
            matches!(&given, Given::Raised { status: Some(500), message, .. } if message.contains("broken")),
            "{given:?}"
        );
        assert_eq!(shop.charges(), ["ch_1"], "{client:?}");
    }
}

#[tokio::test]
async fn a_declined_card_is_raised_and_stays_declined_under_its_key() {
    for client in clients() {
        let shop = Shop::open().await;
        shop.moods(&[Mood::Declines]);
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        let calls = r#"[{"amount":100,"key":"a"},{"amount":100,"key":"a"},{"amount":100,"key":"b"}]"#;
        let given = client.calls(&network, calls).await;
        for declined in &given[..2] {
            assert!(matches!(declined, Given::Raised { status: Some(402), .. }), "{declined:?}");
        }
        assert_eq!(given[2].id(), "ch_1");
        assert_eq!(shop.charges().len(), 1, "{client:?}");
    }
}

#[tokio::test]
async fn a_reused_key_with_other_parameters_is_raised_without_retries() {
    for client in clients() {
        let shop = Shop::open().await;
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        let calls = r#"[{"amount":100,"key":"a"},{"amount":200,"key":"a"},{"amount":100,"key":"a"}]"#;
        let given = client.calls(&network, calls).await;
        assert_eq!(given[0].id(), "ch_1");
        given[1].raised(409, "key_payload_mismatch");
        assert_eq!(given[2].id(), "ch_1", "the original object");
        assert_eq!(shop.charges(), ["ch_1"], "{client:?}");
        assert_eq!(network.requests(), 3, "Stripe-Should-Retry: false");
    }
}

#[tokio::test]
async fn a_busy_service_is_asked_again_and_charges_once() {
    for client in clients() {
        let shop = Shop::open().await;
        shop.moods(&[Mood::Busy]);
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        let given = client.retries(6).charge(&network, 100).await;
        assert_eq!(given.id(), "ch_1");
        assert_eq!(shop.charges(), ["ch_1"], "{client:?}");
    }
}

#[tokio::test]
async fn an_unreachable_service_is_charged_once_it_is_back() {
    for client in clients() {
        let shop = Shop::closed();
        let samekey = Serve::before(&shop.service).start().await;
        let network = Relay::before(samekey.addr).await;
        let charge = client.retries(6);
        let (given, ()) = tokio::join!(charge.charge(&network, 100), async {
            network.sent(1).await;
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            shop.service.accept();
        });
        assert_eq!(given.id(), "ch_1");
        assert_eq!(shop.charges(), ["ch_1"], "{client:?}");
        assert!(network.requests() >= 2);
    }
}
