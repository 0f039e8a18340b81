//! `--actor whoami:URL#/pointer`: the application says who asks.

use std::time::Duration;
use support::upstream::Received;
use support::{Gate, Reply, Request, Serve, Server, Upstream, keys};

const WHOAMI: &str = "whoami:/api/me#/user/id";

/// A shop that knows callers by their cookie or token: `ann`, `17` and nobody else.
fn shop(received: &Received) -> Reply {
    if received.target != "/api/me" {
        return Reply::json(201, &format!(r#"{{"id":"o-{}"}}"#, received.number));
    }
    let cookie = received.headers.all("cookie").join("; ");
    let token = received.headers.all("authorization").join(", ");
    match () {
        () if cookie.contains("sid=ann") || token == "Bearer ann" => Reply::json(200, r#"{"user":{"id":"ann"}}"#),
        () if cookie.contains("sid=17") => Reply::json(200, r#"{"user":{"id":17}}"#),
        () if cookie.contains("sid=guest") => Reply::json(200, r#"{"user":null}"#),
        () if cookie.contains("sid=gone") => Reply::empty(404),
        () if cookie.contains("sid=login") => Reply::empty(302).header("Location", "/login"),
        () if cookie.contains("sid=page") => Reply::with(200, "text/html", "<p>Please sign in"),
        () if cookie.contains("sid=broken") => Reply::json(500, r#"{"user":{"id":"ann"}}"#),
        () if cookie.contains("sid=reset") => Reply::reset(),
        () if cookie.contains("sid=large") => {
            Reply::json(200, &format!(r#"{{"user":{{"id":"{}"}}}}"#, "x".repeat(100_000)))
        }
        () => Reply::json(401, r#"{"user":{"id":"ann"}}"#),
    }
}

async fn before(upstream: &Upstream) -> Server {
    upstream.script(shop);
    Serve::before(upstream).set("--actor", WHOAMI).start().await
}

fn order(key: &str, cookie: &str) -> Request {
    Request::order(key).anonymous().header("Cookie", cookie)
}

fn questions(upstream: &Upstream) -> usize {
    upstream.ledger().all().iter().filter(|received| received.target == "/api/me").count()
}

#[tokio::test]
async fn the_application_names_the_caller() {
    let upstream = Upstream::start().await;
    let samekey = before(&upstream).await;
    let ann = samekey.send(&order("k-1", "sid=ann")).await;
    ann.ran(201, "completed", 1);
    samekey.send(&Request::order("k-1").actor("Bearer ann")).await.replays(&ann);
    samekey.send(&order("k-1", "theme=dark; sid=ann")).await.replays(&ann);
    samekey.send(&order("k-1", "sid=17")).await.ran(201, "completed", 1);
    assert_eq!(upstream.effects("k-1"), 2);
    let tag = ann.header("samekey-actor").expect("a tag");
    let swapped = samekey.send(&order("k-2", "sid=17").header("Samekey-Actor", &tag)).await;
    swapped.refuses(409, "actor_changed", "ask", "none");
    assert_eq!(upstream.effects("k-2"), 0);
}

#[tokio::test]
async fn strangers_are_told_to_sign_in() {
    let upstream = Upstream::start().await;
    let samekey = before(&upstream).await;
    for cookie in ["sid=nobody", "sid=guest", "sid=gone"] {
        let answer = samekey.send(&order(&keys::v7(), cookie)).await;
        answer.refuses(401, "actor_required", "sign_in", "none");
    }
    let asked = questions(&upstream);
    samekey.send(&Request::order("k-1").anonymous()).await.refuses(401, "actor_required", "sign_in", "none");
    let two = Request::order("k-1").actor("Bearer ann").header("Authorization", "Bearer ann");
    samekey.send(&two).await.refuses(401, "actor_required", "sign_in", "none");
    assert_eq!(questions(&upstream), asked, "nothing to ask about");
    assert_eq!(upstream.ledger().count(), asked, "and nothing ran");
    let explained = samekey.logs.line_with("event=\"actor_required\"").await.expect("an explanation");
    assert!(explained.contains("/user/id"), "{explained}");
}

#[tokio::test]
async fn only_credentials_are_passed_on() {
    let upstream = Upstream::start().await;
    let samekey = before(&upstream).await;
    let request =
        order("k-1", "a=1").header("cookie", "sid=ann").header("X-User", "root").header("X-Request-Id", "r-1");
    samekey.send(&request.header("X-HTTP-Method-Override", "DELETE").header("Accept", "text/html")).await;
    let question = upstream.ledger().all().into_iter().next().expect("a question");
    assert_eq!((question.method.as_str(), question.target.as_str()), ("GET", "/api/me"));
    assert_eq!(question.headers.all("cookie"), ["a=1; sid=ann"]);
    let mut names = question.headers.names_starting("");
    names.sort();
    assert_eq!(names, ["accept", "cookie", "host"]);
    assert_eq!(question.headers.all("accept"), ["application/json"]);
    assert!(question.body.is_empty());
}

#[tokio::test]
async fn where_the_application_cannot_say_nothing_is_claimed() {
    let upstream = Upstream::start().await;
    let samekey = before(&upstream).await;
    for cookie in ["sid=login", "sid=page", "sid=broken", "sid=reset", "sid=large"] {
        let key = keys::v7();
        let answer = samekey.send(&order(&key, cookie)).await;
        answer.refuses(503, "store_unavailable", "retry_same_key", "unknown");
        assert!(answer.retry_after().is_some(), "{cookie}");
        assert_eq!(upstream.effects(&key), 0, "{cookie}");
        // The same key under somebody who is known: nothing stands in its way.
        samekey.send(&order(&key, "sid=ann")).await.ran(201, "completed", 1);
    }
    let logs = samekey.logs.text();
    assert!(logs.contains("whoami_failed") && logs.contains("redirect"), "{logs}");
    assert!(!logs.contains("sid="), "no cookie in the logs: {logs}");
    assert!(!upstream.ledger().all().iter().any(|received| received.target == "/login"), "no redirect is followed");
}

#[tokio::test]
async fn a_silent_application_is_not_waited_for_for_ever() {
    let upstream = Upstream::start().await;
    let samekey = before(&upstream).await;
    upstream.next(Reply::silence());
    let answer = samekey.send(&order("k-1", "sid=ann")).await;
    answer.refuses(503, "store_unavailable", "retry_same_key", "unknown");
    samekey.send(&order("k-1", "sid=ann")).await.ran(201, "completed", 1);
    let nobody = Upstream::unreachable();
    let kind = format!("whoami:{}/me#/id", nobody.url());
    let samekey = Serve::before(&upstream).set("--actor", &kind).start().await;
    samekey.send(&order("k-2", "sid=17")).await.refuses(503, "store_unavailable", "retry_same_key", "unknown");
    assert_eq!(upstream.effects("k-2"), 0);
}

#[tokio::test]
async fn a_hundred_at_once_ask_once_and_the_answer_is_believed_for_a_while() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script({
        let gate = gate.clone();
        move |received| if received.target == "/api/me" { shop(received).gated(&gate) } else { shop(received) }
    });
    let samekey = Serve::before(&upstream).set("--actor", WHOAMI).start().await;
    let sent: Vec<_> = (0..100).map(|n| samekey.spawn(&order(&format!("k-{n}"), "sid=ann"))).collect();
    upstream.ledger().arrived(1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(upstream.ledger().count(), 1, "nothing runs before the caller is known");
    gate.open();
    for answer in sent {
        answer.await.expect("an answer").ran(201, "completed", 1);
    }
    assert_eq!(questions(&upstream), 1);
    samekey.send(&order("k-x", "sid=ann ")).await;
    samekey.send(&order("k-y", "sid=ann; x=1")).await.ran(201, "completed", 1);
    assert!(questions(&upstream) > 1, "other headers are another question");
}

#[tokio::test]
async fn who_just_signed_in_is_soon_known() {
    let upstream = Upstream::start().await;
    let samekey = before(&upstream).await;
    upstream.next(Reply::empty(401));
    samekey.send(&order("k-1", "sid=ann")).await.refuses(401, "actor_required", "sign_in", "none");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    samekey.send(&order("k-1", "sid=ann")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn another_service_can_be_asked() {
    let (upstream, auth) = (Upstream::start().await, Upstream::start().await);
    auth.script(|_| Reply::json(200, r#"{"user":{"id":"ann"}}"#));
    let kind = format!("whoami:{}/who?full=1#/user/id", auth.url());
    let samekey = Serve::before(&upstream).set("--actor", &kind).start().await;
    samekey.send(&order("k-1", "sid=1")).await.ran(201, "completed", 1);
    assert_eq!(auth.ledger().last().target, "/who?full=1");
    assert_eq!((auth.ledger().count(), upstream.ledger().count()), (1, 1));
}
