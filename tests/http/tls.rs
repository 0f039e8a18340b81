//! An upstream behind TLS.

use std::time::Duration;
use support::tls::Authority;
use support::{Reply, Request, Serve, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

async fn secure(upstream: &Upstream, authority: &Authority, name: &str) -> Serve {
    let addr = authority.before(upstream.addr(), name).await;
    let serve = Serve::to(&format!("https://{addr}"));
    let ca = authority.file(serve.folder());
    serve.set("--upstream-ca", ca.to_str().expect("a path"))
}

#[tokio::test]
async fn commands_and_the_rest_pass() {
    let upstream = Upstream::start().await;
    let samekey = secure(&upstream, &Authority::default(), "127.0.0.1").await.start().await;
    let first = samekey.send(&Request::order("k")).await;
    first.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().last().headers.all("host"), ["shop.example"], "the client's, as without TLS");
    samekey.send(&Request::order("k")).await.replays(&first);
    assert_eq!(samekey.send(&Request::new("GET", "/orders")).await.status, 201);
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn whoami_is_asked_over_tls_as_well() {
    let upstream = Upstream::start().await;
    upstream.script(|received| match &*received.target {
        "/api/me" => Reply::json(200, r#"{"id":"ann"}"#),
        _ => Reply::json(201, "{}"),
    });
    let serve = secure(&upstream, &Authority::default(), "127.0.0.1").await;
    let samekey = serve.set("--actor", "whoami:/api/me#/id").start().await;
    let first = samekey.send(&Request::order("k").anonymous().header("Cookie", "sid=1")).await;
    first.ran(201, "completed", 1);
    samekey.send(&Request::order("k").anonymous().header("Cookie", "sid=2")).await.replays(&first);
    let stranger = Authority::default();
    let addr = stranger.before(upstream.addr(), "127.0.0.1").await;
    let elsewhere = format!("whoami:https://{addr}/api/me#/id");
    let samekey = secure(&upstream, &Authority::default(), "127.0.0.1").await.set("--actor", &elsewhere).start().await;
    let unknown = samekey.send(&Request::order("k").anonymous().header("Cookie", "sid=1")).await;
    unknown.refuses(503, "store_unavailable", "retry_same_key", "unknown");
}

#[tokio::test]
async fn the_name_counts_and_is_asked_for() {
    let upstream = Upstream::start().await;
    let authority = Authority::default();
    let addr = authority.before(upstream.addr(), "localhost").await;
    let serve = Serve::to(&format!("https://localhost:{}", addr.port()));
    let ca = authority.file(serve.folder());
    let samekey = serve.set("--upstream-ca", ca.to_str().expect("a path")).start().await;
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn a_certificate_that_does_not_hold_means_that_nothing_was_sent() {
    let upstream = Upstream::start().await;
    let (ours, theirs) = (Authority::default(), Authority::default());
    let other_name = secure(&upstream, &ours, "shop.example").await;
    let addr = theirs.before(upstream.addr(), "127.0.0.1").await;
    let other_authority = Serve::to(&format!("https://{addr}"));
    let ca = ours.file(other_authority.folder());
    let other_authority = other_authority.set("--upstream-ca", ca.to_str().expect("a path"));
    let no_authority = Serve::to(&format!("https://{addr}"));
    for serve in [other_name, other_authority, no_authority] {
        let samekey = serve.start().await;
        let order = Request::order("k");
        samekey.send(&order).await.refuses(502, "upstream_unreachable", "retry_same_key", "released");
        assert_eq!(samekey.send(&Request::new("GET", "/")).await.status, 502);
    }
    assert_eq!(upstream.ledger().connections(), 0);
}

/// Whatever the other side does before the handshake is done, the record is released and the next delivery runs.
#[tokio::test]
async fn a_handshake_that_fails_means_that_nothing_was_sent() {
    for deed in ["closes", "resets", "speaks http", "is silent"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let addr = listener.local_addr().expect("its address");
        tokio::spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                tokio::spawn(async move {
                    match deed {
                        "closes" => drop(stream.read(&mut [0; 2000]).await),
                        "resets" => {}
                        "speaks http" => drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await),
                        _ => tokio::time::sleep(Duration::from_secs(60)).await,
                    }
                });
            }
        });
        let serve = Serve::to(&format!("https://{addr}")).set("--connect-timeout", "1s");
        let samekey = serve.start().await;
        let answer = samekey.send(&Request::order("k")).await;
        answer.refuses(502, "upstream_unreachable", "retry_same_key", "released");
        assert_eq!(answer.receipt().attempt, Some(1), "{deed}");
    }
}

/// Without TLS's own goodbye an answer may have been cut by anybody on the way.
#[tokio::test]
async fn an_answer_that_ends_without_goodbye_is_not_whole() {
    let upstream = Upstream::start().await;
    let samekey = secure(&upstream, &Authority::default(), "127.0.0.1").await.start().await;
    upstream.next(Reply::json(201, "{}").truncated());
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn what_cannot_be_trusted_keeps_the_server_from_starting() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate").expect("a file");
    let missing = folder.path().join("missing.pem");
    for (url, file, hint) in [
        ("https://shop.example", &empty, "empty.pem"),
        ("https://shop.example", &missing, "missing.pem"),
        ("http://shop.example", &empty, "https://"),
    ] {
        let serve = Serve::to(url).set("--upstream-ca", file.to_str().expect("a path"));
        let (_, told) = serve.refused().await;
        assert!(told.contains(hint) && told.contains("--upstream"), "{told}");
    }
}
