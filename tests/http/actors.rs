//! Who is asking: keys are scoped by the caller, and nothing is replayed before the caller is known.

use support::{Reply, Request, Serve, Upstream, keys};

#[tokio::test]
async fn a_keyed_request_without_credentials_is_told_to_sign_in() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::order("k-1")).await;
    let answer = samekey.send(&Request::order("k-1").anonymous()).await;
    answer.refuses(401, "actor_required", "sign_in", "none");
    assert!(answer.header("www-authenticate").is_some_and(|scheme| !scheme.is_empty()));
    let answer = samekey.send(&Request::order("k-2").anonymous()).await;
    answer.refuses(401, "actor_required", "sign_in", "none");
    assert_eq!(upstream.ledger().count(), 1);
    samekey.send(&Request::order("k-1")).await.replays(&first);
    samekey.send(&Request::order("k-2")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn the_actor_is_asked_for_before_the_key() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--key", "required").start().await;
    for request in [Request::post("/orders"), Request::post("/orders").key("\"unterminated")] {
        samekey.send(&request.anonymous()).await.refuses(401, "actor_required", "sign_in", "none");
    }
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn two_actors_have_two_keys_of_the_same_name() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let ann = samekey.send(&Request::order("order-17")).await;
    let bob = samekey.send(&Request::order("order-17").actor("Bearer token-of-bob")).await;
    ann.ran(201, "completed", 1);
    bob.ran(201, "completed", 1);
    assert_ne!(ann.body, bob.body);
    samekey.send(&Request::order("order-17")).await.replays(&ann);
    samekey.send(&Request::order("order-17").actor("Bearer token-of-bob")).await.replays(&bob);
    let cheaper = Request::post("/orders").key("order-17").json("{}").actor("Bearer token-of-eve");
    samekey.send(&cheaper).await.ran(201, "completed", 1);
    assert_eq!(upstream.effects("order-17"), 3);
}

#[tokio::test]
async fn two_operations_have_two_keys_of_the_same_name() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let key = keys::v7();
    for request in [
        Request::post("/orders"),
        Request::post("/refunds"),
        Request::post("/orders/"),
        Request::post("//orders"),
        Request::post("/Orders"),
        Request::new("PATCH", "/orders"),
    ] {
        samekey.send(&request.key(&key).json("{}")).await.ran(201, "completed", 1);
    }
    assert_eq!(upstream.effects(&key), 6);
}

#[tokio::test]
async fn spellings_of_one_path_are_one_operation() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::post("/orders/~ann%2fb").key("k-1")).await;
    first.ran(201, "completed", 1);
    for path in ["/orders/%7Eann%2Fb", "/orders/%7eann%2fb", "/x/../orders/./~ann%2Fb", "/%6frders/~ann%2Fb"] {
        samekey.send(&Request::post(path).key("k-1")).await.replays(&first);
    }
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn a_known_uuid_under_other_credentials_does_not_run() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for key in [keys::v7(), keys::v4(), format!("cart-{}", keys::v4()), format!("\"{}\"", keys::v7())] {
        let first = samekey.send(&Request::order(&key)).await;
        first.ran(201, "completed", 1);
        let refreshed = samekey.send(&Request::order(&key).actor("Bearer refreshed")).await;
        refreshed.refuses(409, "actor_changed", "ask", "none");
        assert!(!refreshed.text().contains("o-"), "nothing of the other actor's answer");
        samekey.send(&Request::order(&key)).await.replays(&first);
        assert_eq!(upstream.effects(key.trim_matches('"')), 1);
    }
}

#[tokio::test]
async fn the_fence_belongs_to_the_operation() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let key = keys::v7();
    samekey.send(&Request::post("/orders").key(&key)).await.ran(201, "completed", 1);
    samekey.send(&Request::post("/refunds").key(&key).actor("Bearer other")).await.ran(201, "completed", 1);
    assert_eq!(upstream.effects(&key), 2);
}

#[tokio::test]
async fn with_credentials_no_actor_tag_is_sent() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let answer = samekey.send(&Request::order("k-1").header("Samekey-Actor", "somebody")).await;
    answer.ran(201, "completed", 1);
    assert_eq!(answer.header("samekey-actor"), None);
}

#[tokio::test]
async fn a_trusted_proxy_names_the_actor() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--actor", "header:X-User").start().await;
    let order = |user: &str| Request::order("order-17").anonymous().header("x-user", user);
    let ann = samekey.send(&order("ann")).await;
    ann.ran(201, "completed", 1);
    samekey.send(&order("bob")).await.ran(201, "completed", 1);
    samekey.send(&order("ann")).await.replays(&ann);
    let refreshed = order("ann").actor("Bearer anything-new");
    samekey.send(&refreshed).await.replays(&ann);
    assert_eq!(upstream.effects("order-17"), 2);
    for nobody in [Request::order("k").anonymous(), Request::order("k"), order("")] {
        let answer = samekey.send(&nobody).await;
        answer.refuses(401, "actor_required", "sign_in", "none");
        assert!(answer.header("www-authenticate").is_some());
    }
    let two = samekey.send(&order("ann").header("X-User", "bob")).await;
    assert!(two.status == 400 || two.status == 401, "two names are no name: {two:?}");
    assert_eq!(upstream.ledger().count(), 2);
}

#[tokio::test]
async fn a_key_under_a_named_actor_is_nobody_elses_business() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--actor", "header:X-User").start().await;
    let key = keys::v7();
    samekey.send(&Request::order(&key).header("X-User", "ann")).await.ran(201, "completed", 1);
    samekey.send(&Request::order(&key).header("X-User", "bob")).await.ran(201, "completed", 1);
    assert_eq!(upstream.effects(&key), 2, "the fence is for credentials only");
}

#[tokio::test]
async fn the_actor_header_of_a_stranger_is_removed() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--actor", "header:X-User").set("--trusted-proxies", "192.0.2.0/24");
    let samekey = serve.start().await;
    let forged = Request::order("k-1").anonymous().header("X-User", "ann");
    samekey.send(&forged).await.refuses(401, "actor_required", "sign_in", "none");
    assert_eq!(upstream.ledger().count(), 0);
    samekey.send(&Request::new("GET", "/orders").header("x-user", "ann")).await;
    assert!(upstream.ledger().last().headers.all("x-user").is_empty(), "nor does the application see it");
}

#[tokio::test]
async fn the_actor_tag_is_a_precondition() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--actor", "header:X-User").start().await;
    let order = |user: &str, key: &str| Request::order(key).anonymous().header("X-User", user);
    let tag = |answer: &support::Answer| answer.header("samekey-actor").expect("a tag of the actor");
    let ann = tag(&samekey.send(&order("ann", "k-1")).await);
    let bob = tag(&samekey.send(&order("bob", "k-1")).await);
    assert!(ann != bob && !ann.contains("ann"), "opaque, and one per actor: {ann} {bob}");
    assert_eq!(tag(&samekey.send(&order("ann", "k-2")).await), ann, "the same each time");
    samekey.send(&order("ann", "k-3").header("Samekey-Actor", &ann)).await.ran(201, "completed", 1);
    let swapped = samekey.send(&order("bob", "k-4").header("Samekey-Actor", &ann)).await;
    swapped.refuses(409, "actor_changed", "ask", "none");
    assert_eq!(upstream.effects("k-4"), 0);
}

#[tokio::test]
async fn a_header_that_names_no_single_caller_names_nobody() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--actor", "header:X-User").start().await;
    let long = "x".repeat(10_000);
    let names: [&[u8]; 7] =
        [b"ann, bob", b"ann,", b"ann\tbob", b"ann\xff", b"\xc3", long.as_bytes(), "ann\u{85}".as_bytes()];
    for name in names {
        let answer = samekey.send(&Request::order("k-1").anonymous().header("X-User", name)).await;
        answer.refuses(401, "actor_required", "sign_in", "none");
        assert_eq!(answer.header("samekey-actor"), None);
    }
    assert_eq!(upstream.ledger().count(), 0);
    let zoe = Request::order("k-1").anonymous().header("X-User", "Zo\u{eb}");
    samekey.send(&zoe).await.ran(201, "completed", 1);
    let explained = samekey.logs.line_with("event=\"actor_required\"").await.expect("an explanation");
    assert!(explained.contains("x-user") && explained.contains("--trusted-proxies"), "{explained}");
}

#[tokio::test]
async fn look_alikes_of_the_actor_header_do_not_reach_the_application() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--actor", "header:X-User-Id").start().await;
    let forged =
        Request::order("k-1").header("X-User-Id", "ann").header("X_User_Id", "root").header("X-User_Id", "root");
    samekey.send(&forged).await.ran(201, "completed", 1);
    let arrived = &upstream.ledger().last().headers;
    assert_eq!(arrived.names_starting("x-user"), ["x-user-id"]);
    assert_eq!(arrived.names_starting("x_user"), [""; 0]);
}

#[tokio::test]
async fn a_service_that_answers_401_hides_who_was_meant() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::json(401, "{}"));
    let samekey = Serve::before(&upstream).set("--actor", "header:X-User").start().await;
    let order = Request::order("k-1").header("X-User", "ann");
    let answer = samekey.send(&order).await;
    assert_eq!((answer.status, answer.receipt().state.as_str()), (401, "released"));
    assert_eq!(answer.header("samekey-actor"), None);
    let again = samekey.send(&order).await;
    again.ran(201, "completed", 2);
    assert!(again.header("samekey-actor").is_some());
}
