//! Scripts of other origins, by a list.

use support::{Answer, Reply, Request, Serve, Upstream};

const APP: &str = "https://app.example";
const FOREIGN: &str = "https://evil.example";

fn listed(upstream: &Upstream) -> Serve {
    Serve::before(upstream).set("--cors-origins", "https://app.example,http://localhost:5173")
}

fn preflight(target: &str, origin: &str, method: &str, headers: &str) -> Request {
    Request::new("OPTIONS", target)
        .anonymous()
        .header("Origin", origin)
        .header("Access-Control-Request-Method", method)
        .header("Access-Control-Request-Headers", headers)
}

fn lists(answer: &Answer, header: &str) -> Vec<String> {
    let lines = answer.headers_all(header).join(",");
    lines.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect()
}

/// A script of this origin may read the answer.
#[track_caller]
fn readable(answer: &Answer, origin: &str) {
    assert_eq!(answer.headers_all("access-control-allow-origin"), [origin], "{answer:?}");
    assert_eq!(answer.headers_all("access-control-allow-credentials"), ["true"]);
    assert_eq!(lists(answer, "vary").iter().filter(|name| *name == "origin").count(), 1, "{answer:?}");
    let exposed = lists(answer, "access-control-expose-headers");
    for name in
        ["samekey-state", "samekey-actor", "idempotent-replayed", "x-request-id", "retry-after", "location", "link"]
    {
        assert!(exposed.contains(&name.to_owned()), "{name} in {exposed:?}");
    }
}

/// No permission comes from here, and caches know that it depends on the origin.
#[track_caller]
fn unreadable(answer: &Answer) {
    assert!(answer.headers_all("access-control-allow-origin").is_empty(), "{answer:?}");
    assert!(lists(answer, "vary").contains(&"origin".to_owned()), "{answer:?}");
}

#[tokio::test]
async fn without_a_list_nothing_is_added_and_options_is_the_services() {
    let upstream = Upstream::start().await;
    upstream.script(|_| Reply::json(200, "{}").header("Access-Control-Allow-Origin", "*").header("X-Mine", "1"));
    let samekey = Serve::before(&upstream).start().await;
    let asked = samekey.send(&preflight("/orders", APP, "POST", "idempotency-key")).await;
    assert_eq!((asked.status, asked.header("x-mine").as_deref()), (200, Some("1")));
    assert_eq!(asked.headers_all("access-control-allow-origin"), ["*"]);
    let first = samekey.send(&Request::order("k").header("Origin", APP)).await;
    assert_eq!(
        (first.headers_all("access-control-allow-origin"), first.headers_all("vary")),
        (vec!["*".into()], vec![])
    );
    let replay = samekey.send(&Request::order("k").header("Origin", APP)).await;
    assert!(replay.replayed() && replay.headers_all("access-control-allow-origin").is_empty());
    let route = preflight("/.well-known/samekey/status", APP, "GET", "idempotency-key");
    assert_eq!(samekey.send(&route).await.status, 405, "and the routes are nobody else's");
    assert_eq!(upstream.ledger().count(), 2);
}

#[tokio::test]
async fn a_preflight_of_a_covered_request_is_answered_here() {
    let upstream = Upstream::start().await;
    let samekey = listed(&upstream).start().await;
    for origin in [APP, "http://localhost:5173"] {
        let asked = preflight("/orders", origin, "POST", "content-type,idempotency-key,x-csrf-token");
        let answer = samekey.send(&asked).await;
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        assert_eq!(answer.headers_all("access-control-allow-origin"), [origin]);
        assert_eq!(answer.headers_all("access-control-allow-credentials"), ["true"]);
        assert!(answer.header("access-control-max-age").is_some());
        let allowed = lists(&answer, "access-control-allow-headers");
        let ours = ["idempotency-key", "samekey-actor", "prefer", "x-request-id", "content-type", "authorization"];
        for name in ours.into_iter().chain(["x-csrf-token"]) {
            assert_eq!(allowed.iter().filter(|allowed| *allowed == name).count(), 1, "{name} in {allowed:?}");
        }
        let methods = lists(&answer, "access-control-allow-methods");
        assert!(["post", "patch", "delete"].iter().all(|method| methods.contains(&(*method).to_owned())));
        let vary = lists(&answer, "vary");
        assert!(vary.contains(&"access-control-request-headers".to_owned()), "{vary:?}");
    }
    let foreign = samekey.send(&preflight("/orders", FOREIGN, "POST", "idempotency-key")).await;
    assert_eq!(foreign.status, 204);
    unreadable(&foreign);
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn what_is_not_covered_stays_the_services() {
    let upstream = Upstream::start().await;
    upstream.script(|_| Reply::json(200, "{}").header("X-Mine", "1"));
    let samekey = listed(&upstream).start().await;
    for request in [
        preflight("/orders", APP, "GET", "idempotency-key"),
        preflight("/orders", APP, "PUT", "idempotency-key"),
        preflight("/orders", APP, "POST", "content-type"),
        Request::new("OPTIONS", "/orders").header("Origin", APP),
        Request::new("OPTIONS", "/orders"),
        Request::new("GET", "/orders").header("Origin", APP),
        Request::post("/orders").header("Origin", APP),
    ] {
        let answer = samekey.send(&request).await;
        assert_eq!((answer.status, answer.header("x-mine").as_deref()), (200, Some("1")), "{request:?}");
        assert_eq!((answer.header("access-control-allow-origin"), answer.header("vary")), (None, None), "{request:?}");
    }
    assert_eq!(upstream.ledger().count(), 7);
    let required = listed(&upstream).set("--key", "required").start().await;
    let answer = required.send(&preflight("/orders", APP, "POST", "content-type")).await;
    assert_eq!(answer.status, 204, "a key is required, so the request will be covered");
}

#[tokio::test]
async fn first_answers_replays_and_refusals_can_be_read() {
    let upstream = Upstream::start().await;
    let mine = Reply::json(201, "{}")
        .header("Access-Control-Allow-Origin", "*")
        .header("Access-Control-Expose-Headers", "X-Total")
        .header("Vary", "Accept");
    upstream.next(mine);
    let samekey = listed(&upstream).start().await;
    let from = |origin: &str, key: &str| Request::order(key).header("Origin", origin);
    let first = samekey.send(&from(APP, "k")).await;
    readable(&first, APP);
    assert!(lists(&first, "access-control-expose-headers").contains(&"x-total".to_owned()));
    assert_eq!(lists(&first, "vary"), ["accept", "origin"]);
    for origin in [APP, "http://localhost:5173"] {
        let replay = samekey.send(&from(origin, "k")).await;
        assert!(replay.replayed());
        readable(&replay, origin);
        assert_eq!(lists(&replay, "vary"), ["accept", "origin"]);
    }
    for refused in [
        from(APP, "a, b"),
        from(APP, "k").anonymous(),
        Request::post("/orders").key("k").json("[]").header("Origin", APP),
    ] {
        let answer = samekey.send(&refused).await;
        assert!(answer.status >= 400);
        readable(&answer, APP);
    }
    unreadable(&samekey.send(&from(FOREIGN, "k")).await);
    unreadable(&samekey.send(&Request::order("k")).await);
    unreadable(&samekey.send(&Request::order("k").header("Origin", APP).header("Origin", FOREIGN)).await);
}

#[tokio::test]
async fn a_foreign_origin_keeps_what_the_service_gave_it() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::json(201, "{}").header("Access-Control-Allow-Origin", FOREIGN));
    let samekey = listed(&upstream).start().await;
    let first = samekey.send(&Request::order("k").header("Origin", FOREIGN)).await;
    assert_eq!(first.headers_all("access-control-allow-origin"), [FOREIGN]);
    unreadable(&samekey.send(&Request::order("k").header("Origin", FOREIGN)).await);
}

#[tokio::test]
async fn the_routes_answer_listed_origins() {
    let upstream = Upstream::start().await;
    let samekey = listed(&upstream).start().await;
    let status = "/.well-known/samekey/status?operation=POST%20%2Forders";
    for (target, method) in [
        (status, "GET"),
        (status, "DELETE"),
        ("/.well-known/samekey/contract", "GET"),
        ("/.well-known/samekey/problems/key_closed", "GET"),
        ("/.well-known/samekey/nonsense", "GET"),
    ] {
        let asked = samekey.send(&preflight(target, APP, method, "idempotency-key")).await;
        assert_eq!(
            (asked.status, asked.headers_all("access-control-allow-origin")),
            (204, vec![APP.into()]),
            "{target}"
        );
        let answer = samekey.send(&Request::new(method, target).key("k").header("Origin", APP)).await;
        readable(&answer, APP);
        unreadable(&samekey.send(&Request::new(method, target).key("k").header("Origin", FOREIGN)).await);
    }
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn what_is_no_origin_is_refused_at_the_start() {
    let upstream = Upstream::start().await;
    for wrong in ["*", "app.example", "https://app.example/", "https://app.example:443", "null"] {
        let (_, said) = Serve::before(&upstream).set("--cors-origins", wrong).refused().await;
        assert!(said.contains("https://app.example"), "{wrong}: {said}");
    }
}

#[tokio::test]
async fn the_file_names_origins_too() {
    let upstream = Upstream::start().await;
    let text = "cors = [\"https://app.example\"]\nkey_header = \"X-Intent\"\n";
    let samekey = Serve::before(&upstream).config(text).start().await;
    let asked = samekey.send(&preflight("/orders", APP, "POST", "x-intent")).await;
    assert_eq!(asked.status, 204);
    assert!(lists(&asked, "access-control-allow-headers").contains(&"x-intent".to_owned()), "{asked:?}");
    let other = samekey.send(&preflight("/orders", APP, "POST", "idempotency-key")).await;
    assert_eq!(other.status, 201, "nothing that is covered is announced: the service's own");
}
