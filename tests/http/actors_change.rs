//! Another kind of actor makes every caller somebody new: that is said before it happens.

use support::{Request, Serve, Upstream, keys};

fn as_ann(key: &str) -> Request {
    Request::order(key).header("X-User", "ann")
}

#[tokio::test]
async fn a_changed_kind_is_refused_while_records_are_remembered() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let key = keys::v4();
    let samekey = serve.start().await;
    let first = samekey.send(&as_ann(&key)).await;
    first.ran(201, "completed", 1);
    samekey.stop().await;

    let changed = serve.clone().set("--actor", "header:X-User");
    let (_, said) = changed.refused().await;
    for hint in ["credentials", "header:x-user", "--accept-actor-change", "twice"] {
        assert!(said.contains(hint), "{hint}: {said}");
    }
    let samekey = serve.start().await;
    samekey.send(&as_ann(&key)).await.replays(&first);
    samekey.stop().await;

    let accepted = changed.clone().through(&["sh", "-c", "exec \"$@\" --accept-actor-change", "sh"]);
    let samekey = accepted.start().await;
    let named = samekey.send(&as_ann(&key)).await;
    named.ran(201, "completed", 1);
    samekey.stop().await;
    let samekey = changed.start().await;
    samekey.send(&as_ann(&key)).await.replays(&named);
    samekey.stop().await;
    let (_, said) = serve.refused().await;
    assert!(said.contains("header:x-user"), "the way back is a change, too: {said}");
}

#[tokio::test]
async fn an_empty_store_belongs_to_whoever_comes() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    serve.start().await.stop().await;
    let samekey = serve.clone().set("--actor", "header:X-User").start().await;
    samekey.send(&as_ann("k-1")).await.ran(201, "completed", 1);
    samekey.stop().await;
    let (_, said) = serve.set("--actor", "header:X-Other").refused().await;
    assert!(said.contains("header:x-user") && said.contains("header:x-other"), "{said}");
}

#[tokio::test]
async fn the_tag_of_an_actor_outlives_restarts_and_belongs_to_the_store() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--actor", "header:X-User");
    let samekey = serve.start().await;
    let tag = samekey.send(&as_ann("k-1")).await.header("samekey-actor").expect("a tag");
    samekey.stop().await;
    let samekey = serve.start().await;
    let again = samekey.send(&as_ann("k-2").header("Samekey-Actor", &tag)).await;
    again.ran(201, "completed", 1);
    assert_eq!(again.header("samekey-actor").as_ref(), Some(&tag));
    let replay = samekey.send(&as_ann("k-1").header("Samekey-Actor", &tag)).await;
    assert!(replay.replayed() && replay.header("samekey-actor").as_ref() == Some(&tag), "on a replay, too");
    let mismatch = samekey.send(&as_ann("k-1").json("{}")).await;
    mismatch.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    assert_eq!(mismatch.header("samekey-actor").as_ref(), Some(&tag), "and on a refusal");
    let two = as_ann("k-3").header("Samekey-Actor", &tag).header("Samekey-Actor", "other");
    let changed = samekey.send(&two).await;
    changed.refuses(409, "actor_changed", "ask", "none");
    assert_eq!(changed.header("samekey-actor").as_ref(), Some(&tag), "who it is now");

    let elsewhere = Serve::before(&upstream).set("--actor", "header:X-User").start().await;
    let other = elsewhere.send(&as_ann("k-1")).await.header("samekey-actor").expect("a tag");
    assert_ne!(other, tag, "nobody is followed from store to store");
}

#[tokio::test]
async fn the_first_change_of_credentials_is_explained_once() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let key = keys::v7();
    samekey.send(&Request::order(&key)).await.ran(201, "completed", 1);
    for token in ["Bearer token-marker-1", "Bearer token-marker-2"] {
        samekey.send(&Request::order(&key).actor(token)).await.refuses(409, "actor_changed", "ask", "none");
    }
    let line = samekey.logs.line_with("event=\"actor_changed\"").await.expect("an explanation");
    for way in ["jwt:", "header:", "whoami:"] {
        assert!(line.contains(way), "{way}: {line}");
    }
    let logs = samekey.logs.text();
    assert_eq!(logs.matches("event=\"actor_changed\"").count(), 1, "{logs}");
    assert!(!logs.contains("marker"), "{logs}");
}
