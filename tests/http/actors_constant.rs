//! `--actor constant:NAME`: everybody is one, and the key is the secret.

use support::{Request, Serve, Upstream, keys};

#[tokio::test]
async fn it_is_accepted_in_so_many_words_only() {
    let upstream = Upstream::start().await;
    let (_, said) = Serve::before(&upstream).set("--actor", "constant:shop").refused().await;
    assert!(said.contains("--accept-shared-actor") && said.contains("UUID"), "{said}");
    for name in ["constant:", "constant:two words", "constant"] {
        let (_, said) = Serve::before(&upstream).set("--actor", name).refused().await;
        assert!(said.contains("constant:"), "{said}");
    }
}

#[tokio::test]
async fn only_keys_that_nobody_guesses_are_taken() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--actor", "constant:shop").through(&ACCEPT).start().await;
    for key in ["order-17", "f81d4fae7dec41d0a76500a0c91e6bf6", "01ARZ3NDEKTSV4RRFFQ69G5FAVX"] {
        let refused = samekey.send(&Request::order(key).anonymous()).await;
        let problem = refused.refuses(400, "idempotency_key_invalid", "fix_request", "refused");
        assert!(problem.detail.contains("UUID") && problem.detail.contains("ULID"), "{}", problem.detail);
    }
    assert_eq!(upstream.ledger().count(), 0);
    for key in [keys::v7(), keys::v4(), format!("cart-{}", keys::v4()), "cart_01ARZ3NDEKTSV4RRFFQ69G5FAV".into()] {
        let first = samekey.send(&Request::order(&key).anonymous()).await;
        first.ran(201, "completed", 1);
        // Whoever has the key has the answer: signed in or not, as ann or as bob.
        samekey.send(&Request::order(&key).actor("Bearer bob").header("Samekey-Actor", "x")).await.replays(&first);
        assert_eq!(first.header("samekey-actor"), None, "one actor for all has no tag");
        assert_eq!(upstream.effects(&key), 1);
    }
}

/// A switch has no value: it is added behind the flags.
const ACCEPT: [&str; 4] = ["sh", "-c", "exec \"$@\" --accept-shared-actor", "sh"];
