//! HTTP/2 from clients, with prior knowledge; the upstream sees HTTP/1.1.

use http::Request as H2Request;
use http_body_util::BodyExt;
use rustix::process::Signal;
use std::convert::Infallible;
use std::time::Duration;
use support::curl::{curl, speaks_h2};
use support::h2::{Connection, Outgoing, full, order};
use support::patience::within;
use support::{Gate, Reply, Request, Serve, Upstream};

fn get(path: &str) -> http::request::Builder {
    H2Request::get(format!("http://shop.example{path}"))
}

fn empty(request: http::request::Builder) -> H2Request<Outgoing> {
    request.body(full("")).expect("a request")
}

#[tokio::test]
async fn a_command_runs_once_over_both_protocols() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let client = Connection::open(samekey.addr).await;
    let first = client.exchange(order("k")).await.expect("an answer");
    assert_eq!(
        (first.status.as_u16(), &first.headers["samekey-state"]),
        (201, &"completed;attempt=1".parse().unwrap())
    );
    let received = upstream.ledger().last();
    assert_eq!(received.headers.all("host"), ["shop.example"]);
    assert_eq!(received.headers.one("via").as_deref(), Some("2.0 samekey"));
    assert_eq!(received.body, br#"{"sku":"tea","qty":1}"#);
    let again = client.exchange(order("k")).await.expect("an answer");
    assert_eq!((&again.headers["idempotent-replayed"], &again.body), (&"true".parse().unwrap(), &first.body));
    let old = samekey.send(&Request::order("k")).await;
    assert!(old.replayed() && old.body == first.body);
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn fields_are_translated() {
    let upstream = Upstream::start().await;
    let answer =
        Reply::json(200, "{}").header("Connection", "x-hop").header("X-Hop", "1").header("Keep-Alive", "timeout=5");
    upstream.next(answer.header("Set-Cookie", "a=1").header("Set-Cookie", "b=2"));
    let samekey = Serve::before(&upstream).start().await;
    let client = Connection::open(samekey.addr).await;
    let request = get("/a//b?x=%7E&&y").header("cookie", "a=1").header("cookie", "b=2").header("te", "trailers");
    let answer = client.exchange(empty(request)).await.expect("an answer");
    for gone in ["connection", "x-hop", "keep-alive", "transfer-encoding"] {
        assert!(!answer.headers.contains_key(gone), "{gone}: {:?}", answer.headers);
    }
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2, "answers' cookies stay apart");
    let received = upstream.ledger().last();
    assert_eq!((received.method.as_str(), received.target.as_str()), ("GET", "/a//b?x=%7E&&y"));
    assert_eq!(received.headers.all("cookie"), ["a=1; b=2"]);
    assert_eq!(received.headers.all("te"), ["trailers"]);
    let differs = client.exchange(empty(get("/").header("host", "admin.example"))).await.expect("an answer");
    assert_eq!(differs.status, 400, "Host and :authority");
    let same = client.exchange(empty(get("/same").header("host", "shop.example"))).await.expect("an answer");
    assert_eq!(same.status, 201);
    assert_eq!(upstream.ledger().last().headers.all("host"), ["shop.example"]);
    for hop in [("connection", "close"), ("transfer-encoding", "chunked"), ("te", "gzip"), ("upgrade", "websocket")] {
        let before = upstream.ledger().count();
        let client = Connection::open(samekey.addr).await;
        let answer = client.exchange(empty(get("/hop").header(hop.0, hop.1))).await;
        if upstream.ledger().count() > before {
            // The client library took it off.
            assert!(upstream.ledger().last().headers.all(hop.0).join("") != hop.1, "{hop:?}");
        } else {
            assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 400), "{hop:?}");
        }
    }
}

#[tokio::test]
async fn trailers_pass_in_both_directions() {
    let upstream = Upstream::start().await;
    upstream.script(|_| {
        Reply::raw(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n",
        )
    });
    let samekey = Serve::before(&upstream).start().await;
    let client = Connection::open(samekey.addr).await;
    for key in [None, Some("k")] {
        let trailers = http::HeaderMap::from_iter([("x-sent".parse().unwrap(), "7".parse().unwrap())]);
        let body = full("hello").with_trailers(std::future::ready(Some(Ok::<_, Infallible>(trailers)))).boxed();
        let mut request = H2Request::post("http://shop.example/o").header("te", "trailers").header("trailer", "x-sent");
        request = request.header("authorization", "a");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = client.exchange(request.body(body).unwrap()).await.expect("an answer");
        assert_eq!((answer.body.as_ref(), &answer.trailers["x-sum"]), (b"ok".as_slice(), &"42".parse().unwrap()));
        let received = upstream.ledger().last();
        assert_eq!(received.body, b"hello");
        assert_eq!(received.trailers.all("x-sent"), ["7"], "{key:?}");
    }
}

#[tokio::test]
async fn many_streams_share_a_connection_and_their_number_is_limited() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.script({
        let gate = gate.clone();
        move |_| Reply::json(201, "{}").gated(&gate)
    });
    let samekey = Serve::before(&upstream).start().await;
    let client = std::sync::Arc::new(Connection::open(samekey.addr).await);
    let streams: Vec<_> = (0..250)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.exchange(order(&format!("k-{n}"))).await })
        })
        .collect();
    upstream.ledger().arrived(200).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(upstream.ledger().count() <= 201, "no more than 200 at once: {}", upstream.ledger().count());
    gate.open();
    for stream in streams {
        assert_eq!(stream.await.unwrap().expect("an answer").status, 201);
    }
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused_and_the_connection_lives_on() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let client = Connection::open(samekey.addr).await;
    let giant = client.exchange(empty(get("/").header("x-giant", "v".repeat(100_000)))).await;
    assert!(giant.as_ref().is_err() || giant.as_ref().is_ok_and(|answer| answer.status == 431), "{giant:?}");
    assert_eq!(upstream.ledger().count(), 0);
    let client = Connection::open(samekey.addr).await;
    assert_eq!(client.exchange(order("k")).await.expect("an answer").status, 201);
}

#[tokio::test]
async fn a_drain_lets_streams_end_and_says_goodbye() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let mut samekey = Serve::before(&upstream).start().await;
    let idle = Connection::open(samekey.addr).await;
    let busy = std::sync::Arc::new(Connection::open(samekey.addr).await);
    let running = tokio::spawn({
        let busy = busy.clone();
        async move { busy.exchange(order("k")).await }
    });
    upstream.ledger().arrived(1).await;
    samekey.signal(Signal::TERM);
    within(Duration::from_secs(8), "the idle connection's end", idle.ended).await.unwrap().ok();
    // Longer than a connection without a request is left alone.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!running.is_finished(), "a stream that is being answered counts");
    gate.open();
    assert_eq!(running.await.unwrap().expect("an answer").status, 201);
    assert!(within(Duration::from_secs(8), "leaving", samekey.exited()).await.success());
}

#[tokio::test]
async fn a_stream_that_is_reset_does_not_end_the_command() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let samekey = Serve::before(&upstream).start().await;
    let client = std::sync::Arc::new(Connection::open(samekey.addr).await);
    let left = tokio::spawn({
        let client = client.clone();
        async move { client.exchange(order("k")).await }
    });
    upstream.ledger().arrived(1).await;
    left.abort();
    gate.open();
    let answer = client.exchange(order("k")).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), upstream.effects("k")), (201, 1));
    assert_eq!(answer.headers["idempotent-replayed"], "true");
}

#[tokio::test]
async fn curl_speaks_it() {
    if !speaks_h2().await {
        return;
    }
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let url = format!("http://{}/orders", samekey.addr);
    for replayed in [false, true] {
        let order = ["--http2-prior-knowledge", "-i", "-H", "Authorization: Bearer t", "-H", "Idempotency-Key: k"];
        let answer = curl(&[&order[..], &["-d", "sku=tea", &url]].concat()).await;
        assert!(answer.starts_with("HTTP/2 201"), "{answer}");
        assert_eq!(answer.contains("idempotent-replayed: true"), replayed, "{answer}");
    }
    let refused = curl(&["--http2-prior-knowledge", "-i", "-H", "Idempotency-Key: k", "-d", "sku=tea", &url]).await;
    assert!(refused.starts_with("HTTP/2 401") && refused.contains("actor_required"), "{refused}");
    let large = "x".repeat(2_000_000);
    let file = samekey.serve().folder().join("large");
    std::fs::write(&file, &large).expect("a file");
    let upload = format!("@{}", file.display());
    let answer = curl(&["--http2-prior-knowledge", "-i", "--data-binary", &upload, &url]).await;
    assert!(answer.starts_with("HTTP/2 201"), "{answer}");
    assert_eq!(upstream.ledger().last().body.len(), large.len());
    assert_eq!(upstream.effects("k"), 1);
}
