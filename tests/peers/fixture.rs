//! Without samekey: the faults really make the SDKs retry, and the retries really charge twice.

use crate::sdk::clients;
use crate::shop::{Mood, Shop};
use std::time::Duration;
use support::relay::{Loss, Relay};
use support::upstream::Received;

#[tokio::test]
async fn fixture_without_samekey_a_lost_answer_charges_twice() {
    for client in clients() {
        for loss in [Loss::Reset, Loss::Cut(10)] {
            let shop = Shop::open().await;
            let network = Relay::before(shop.service.addr()).await;
            network.plan(&[loss]);
            let given = client.charge(&network, 100).await;
            assert_eq!(given.id(), "ch_2", "{client:?} {loss:?}: the retry's charge, the first is never heard of");
            assert_eq!(shop.charges().len(), 2);
            let keys: Vec<_> = shop.service.ledger().all().iter().map(Received::key).collect();
            assert!(keys[0].is_some() && keys[0] == keys[1], "one key on both deliveries: {keys:?}");
        }
    }
}

#[tokio::test]
async fn fixture_without_samekey_every_mood_charges_twice_and_more() {
    for client in clients() {
        for mood in [Mood::Resets, Mood::Breaks, Mood::Gateway, Mood::Slow(Duration::from_millis(1800))] {
            let shop = Shop::open().await;
            shop.moods(&[mood]);
            let network = Relay::before(shop.service.addr()).await;
            let given = client.timeout(Duration::from_secs(1)).charge(&network, 100).await;
            assert_eq!(given.id(), "ch_2", "{client:?} {mood:?}");
            assert_eq!(shop.charges().len(), 2);
        }
    }
}

#[tokio::test]
async fn fixture_without_faults_one_call_is_one_charge() {
    for client in clients() {
        let shop = Shop::open().await;
        let network = Relay::before(shop.service.addr()).await;
        let given = client.calls(&network, r#"[{"amount":100},{"amount":200,"key":"mine"}]"#).await;
        assert_eq!((given[0].id(), given[1].id()), ("ch_1", "ch_2"));
        assert_eq!(shop.service.ledger().last().key().as_deref(), Some("mine"));
        assert_eq!(network.requests(), 2);
    }
}
