//! A claim guard around two external calls, in a program that need not be a web service.
//!
//! ```console
//! $ cargo run -p samekey --example claim
//! ```

use axum::http::StatusCode;
use samekey::{
    Actor, Answer, Claimed, Command, EffectError, Fingerprint, Key, Outcome, Policy, Problem, ProviderKey, Store,
};

#[derive(serde::Serialize)]
struct Order {
    sku: String,
    cents: u64,
}

#[derive(Debug, thiserror::Error)]
enum CheckoutError {
    #[error(transparent)]
    Refused(#[from] Problem),
    #[error(transparent)]
    Effect(#[from] EffectError),
    #[error(transparent)]
    Encode(#[from] serde_json::Error),
}

async fn checkout(
    store: &Store,
    policy: &Policy,
    user: &str,
    key: Key,
    order: &Order,
) -> Result<Outcome, CheckoutError> {
    let command = Command::new(Actor::new(user), "checkout", key, Fingerprint::of_json(order)?);
    let mut claim = match store.claim(&command, policy).await? {
        Claimed::Run(claim) => claim,
        Claimed::Replay(outcome) => return Ok(outcome),
    };
    let call = |key: ProviderKey| async move {
        match charge(key.as_str(), order.cents).await {
            Ok(id) => Ok(Ok(id)),
            Err(PayError::Declined(why)) => Ok(Err(why)), // an answer: finished, never asked again
            Err(e @ PayError::Connect) => Err(EffectError::not_done(e)), // nothing left: may be called again
            Err(e @ PayError::Timeout) => Err(EffectError::unknown(e)), // stays open; dropping the claim says so
        }
    };
    let charge: Result<String, String> = claim.effect_with("charge", order, call).await?;
    let Ok(charge) = charge else { return Ok(claim.fail(Answer::empty(StatusCode::PAYMENT_REQUIRED)).await?) };
    let call = |key: ProviderKey| async move { ship(key.as_str(), &order.sku).await.map_err(EffectError::unknown) };
    let parcel: String = claim.effect("ship", call).await?;
    let answer = serde_json::json!({ "charge": charge, "parcel": parcel });
    Ok(claim.complete(Answer::json(StatusCode::CREATED, &answer).result_id(parcel)).await?)
}

#[derive(Debug, thiserror::Error)]
enum PayError {
    #[error("declined: {0}")]
    Declined(String),
    #[error("no connection")]
    Connect,
    #[error("no answer")]
    Timeout,
}

/// Stands for a payment provider; what it does depends on the amount.
async fn charge(key: &str, cents: u64) -> Result<String, PayError> {
    match cents {
        0 => Err(PayError::Declined("no amount".into())),
        13 => Err(PayError::Connect),
        666 => Err(PayError::Timeout),
        _ => Ok(format!("ch_{}", &key[..8])),
    }
}

/// Stands for a carrier.
async fn ship(key: &str, sku: &str) -> Result<String, std::io::Error> {
    Ok(format!("p_{sku}_{}", &key[..8]))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for the terminal")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::sqlite("samekey.db").await?;
    // Every effect goes through the journal, so what is dropped while none is open may run again at once.
    let policy = Policy::new("checkout").journaled(true);
    let key = samekey::key::mint(); // one per intent; keep it until the outcome is known
    let order = Order { sku: "tea".into(), cents: 480 };
    for _ in 0..2 {
        let outcome = checkout(&store, &policy, "ann", key.clone(), &order).await?;
        println!("{} replayed: {} {:?}", outcome.answer.status, outcome.replayed, outcome.answer.body);
    }
    store.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use samekey::{Code, State};

    use super::*;

    async fn state(store: &Store, key: &Key) -> State {
        store.look(&Actor::new("ann"), "checkout", key).await.unwrap().unwrap().state
    }

    #[tokio::test]
    async fn a_checkout_charges_and_ships_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::sqlite(folder.path().join("samekey.db")).await.unwrap();
        let policy = Policy::new("checkout").journaled(true);
        let key = |text: &str| text.parse::<Key>().unwrap();
        let order = |cents| Order { sku: "tea".into(), cents };
        let go = async |name: &str, cents| checkout(&store, &policy, "ann", key(name), &order(cents)).await;

        let first = go("k1", 480).await.unwrap();
        let again = go("k1", 480).await.unwrap();
        assert_eq!((first.answer.status, first.replayed, again.replayed), (StatusCode::CREATED, false, true));
        assert_eq!(first.answer.body, again.answer.body);
        let record = store.look(&Actor::new("ann"), "checkout", &key("k1")).await.unwrap().unwrap();
        assert!(record.result_id.unwrap().starts_with("p_tea_"));

        let declined = go("k2", 0).await.unwrap();
        assert_eq!(
            (declined.answer.status, state(&store, &key("k2")).await),
            (StatusCode::PAYMENT_REQUIRED, State::Failed)
        );

        for _ in 0..2 {
            // Nothing left the machine: the same key runs again, and its claim is given back at once.
            let refused = go("k3", 13).await.unwrap_err();
            assert!(matches!(refused, CheckoutError::Effect(EffectError::NotDone(_))), "{refused}");
            while state(&store, &key("k3")).await == State::InProgress {
                tokio::task::yield_now().await;
            }
        }
        let unknown = go("k4", 666).await.unwrap_err();
        assert!(matches!(&unknown, CheckoutError::Effect(error) if error.is_unknown()), "{unknown}");
        let impatient = policy.clone().wait(std::time::Duration::ZERO, std::time::Duration::ZERO);
        let held = checkout(&store, &impatient, "ann", key("k4"), &order(666)).await.unwrap_err();
        assert!(matches!(held, CheckoutError::Refused(problem) if problem.code == Code::OperationInProgress));
    }
}
