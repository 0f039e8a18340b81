//! Bad input gets a refusal: never a panic, a hang or a half-made claim.

use support::{Request, Serve, Server, Upstream};

async fn alive(samekey: &Server, upstream: &Upstream, key: &str) {
    let before = upstream.ledger().count();
    samekey.send(&Request::order(key)).await.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().count(), before + 1, "and nothing else slipped through");
}

const HEAD: &str = "Host: h\r\nAuthorization: Bearer a\r\nContent-Type: text/plain\r\n";

#[tokio::test]
async fn requests_with_two_meanings_never_reach_the_upstream_as_two() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let framings = [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\nContent-Length: 6\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: \r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length : 5\r\n",
        " Content-Length: 5\r\n",
    ];
    for (n, framing) in framings.iter().enumerate() {
        let mut client = samekey.connect().await;
        let smuggled = "POST /admin HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
        let text = format!("POST /o HTTP/1.1\r\n{HEAD}Idempotency-Key: k-{n}\r\n{framing}\r\nhello{smuggled}");
        client.send(text.as_bytes()).await;
        if let Ok(answer) = client.try_answer().await {
            assert!((400..500).contains(&answer.status), "{framing:?}: {answer:?}");
        }
        assert_eq!(upstream.ledger().count(), n, "{framing:?}");
        alive(&samekey, &upstream, &format!("after-{n}")).await;
    }
    let mut client = samekey.connect().await;
    let text = format!(
        "POST /o HTTP/1.1\r\n{HEAD}Idempotency-Key: both\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    client.send(text.as_bytes()).await;
    client.send(b"5\r\nhello\r\n0\r\n\r\n").await;
    if client.try_answer().await.is_ok_and(|answer| answer.status < 400) {
        assert_eq!(upstream.ledger().last().body, b"hello", "chunked wins, or it is refused");
    }
}

#[tokio::test]
async fn a_broken_body_makes_no_claim() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for body in ["zz\r\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "fffffffffffffffff\r\nhello", "-1\r\n\r\n"] {
        let mut client = samekey.connect().await;
        let head = format!("POST /o HTTP/1.1\r\n{HEAD}Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(format!("{head}{body}").as_bytes()).await;
        client.half_close().await;
        if let Ok(answer) = client.try_answer().await {
            assert!((400..500).contains(&answer.status), "{body:?}: {answer:?}");
        }
    }
    assert_eq!(upstream.ledger().count(), 0);
    samekey.send(&Request::post("/o").key("k").body("text/plain", "fine")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn nonsense_and_giants_are_refused_and_the_server_lives_on() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let many: String = (0..5000).map(|n| format!("X-{n}: v\r\n")).collect();
    let giant = format!("X-Giant: {}\r\n", "v".repeat(2_000_000));
    let long = format!("POST /{} HTTP/1.1\r\n{HEAD}\r\n", "p".repeat(1_000_000));
    let nonsense: Vec<Vec<u8>> = vec![
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"\r\n\r\n\r\n\r\n".to_vec(),
        b"POST /orders\r\n\r\n".to_vec(),
        b"POST  /orders HTTP/1.1\r\n\r\n".to_vec(),
        b"POST /orders HTTP/9.9\r\nHost: h\r\n\r\n".to_vec(),
        b"POST orders HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
        format!("POST /orders HTTP/1.1\r\n{HEAD}Idempotency-Key: k\r\n{many}\r\n").into_bytes(),
        format!("POST /orders HTTP/1.1\r\n{HEAD}Idempotency-Key: k\r\n{giant}\r\n").into_bytes(),
        long.into_bytes(),
        vec![0; 10_000],
    ];
    for (n, bytes) in nonsense.iter().enumerate() {
        let mut client = samekey.connect().await;
        client.send(bytes).await;
        client.half_close().await;
        if let Ok(answer) = client.try_answer().await {
            assert!(answer.status >= 400, "{n}: {answer:?}");
        }
        alive(&samekey, &upstream, &format!("after-{n}")).await;
    }
}

#[tokio::test]
async fn an_absolute_target_is_served_by_the_upstream_and_by_nobody_else() {
    let upstream = Upstream::start().await;
    let elsewhere = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::post("/orders").key("k")).await;
    let absolute = format!("http://{}/orders", elsewhere.addr());
    samekey.send(&Request::post(&absolute).key("k")).await.replays(&first);
    assert_eq!((upstream.ledger().count(), elsewhere.ledger().count()), (1, 0));
    let mut client = samekey.connect().await;
    let target = elsewhere.addr();
    client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).await;
    if let Ok(answer) = client.try_answer().await {
        assert!(answer.status >= 400, "no tunnel: {answer:?}");
    }
    assert_eq!(elsewhere.ledger().connections(), 0);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut bytes = Vec::new();
    for key in ["a", "b", "a", "c"] {
        bytes.extend(Request::order(key).bytes());
    }
    let mut client = samekey.connect().await;
    client.send(&bytes).await;
    let a = client.answer().await;
    let b = client.answer().await;
    client.answer().await.replays(&a);
    let c = client.answer().await;
    assert!(a.body != b.body && b.body != c.body);
    assert_eq!(upstream.ledger().count(), 3);
}

#[tokio::test]
async fn hostile_json_costs_little_and_is_passed_on() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let bodies = [
        "[".repeat(1_000_000),
        format!("[{}]", "1e999999999,".repeat(50_000) + "0"),
        format!("{{{}}}", (0..50_000).map(|n| format!("\"a{n}\":{n}")).collect::<Vec<_>>().join(",")),
        format!("\"{}\"", "\\u0061".repeat(150_000)),
        format!("{}1", "1".repeat(900_000)),
        format!("1e{}", "9".repeat(500_000)),
    ];
    for (n, body) in bodies.iter().enumerate() {
        let request = Request::post("/o").key(format!("k-{n}")).json(body);
        let limit = std::time::Duration::from_secs(10);
        let first = support::patience::within(limit, "a hostile body", samekey.send(&request)).await;
        first.ran(201, "completed", 1);
        assert_eq!(upstream.ledger().last().body, body.as_bytes());
        samekey.send(&request).await.replays(&first);
    }
}
