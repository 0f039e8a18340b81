//! Requests that two programs in a chain could frame differently. What arrives at the upstream is one well-framed
//! request, or nothing.

use support::{Request, Serve, Server, Upstream};

const HEAD: &str = "Host: h\r\nAuthorization: Bearer a\r\nContent-Type: text/plain\r\n";
const SMUGGLED: &str = "POST /admin HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";

/// Sends it with and without a key: nothing reaches the upstream, and the connection ends.
async fn refused(samekey: &Server, upstream: &Upstream, what: &str, request: &str) {
    for key in ["", "Idempotency-Key: k\r\n"] {
        let before = upstream.ledger().all();
        let mut client = samekey.connect().await;
        client.send(request.replace("KEY\r\n", key).as_bytes()).await;
        let answer = client.try_answer().await.unwrap_or_else(|error| panic!("{what:?}: an answer, not {error}"));
        assert_eq!(answer.status, 400, "{what:?}: {answer:?}");
        client.closed().await;
        let new: Vec<_> = upstream.ledger().all().split_off(before.len());
        assert!(new.iter().all(|received| !received.whole), "{what:?} reached the upstream: {new:?}");
        assert!(new.iter().all(|received| received.target != "/admin"), "{what:?} smuggled: {new:?}");
    }
}

#[tokio::test]
async fn heads_with_two_meanings_are_refused() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for fields in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: \r\n",
        "Content-Length: 18446744073709551621\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "Content-Length : 5\r\n",
        " Content-Length: 5\r\n",
        "X-A: b\r\n Content-Length: 5\r\n",
        "X-A: b\nContent-Length: 5\r\n",
        "X-A: b\rContent-Length: 5\r\n",
        "X-A: b\0c\r\nContent-Length: 5\r\n",
        "X-\0A: b\r\nContent-Length: 5\r\n",
        "X A: b\r\nContent-Length: 5\r\n",
        ": b\r\nContent-Length: 5\r\n",
        "X-A\r\nContent-Length: 5\r\n",
        "Host: other\r\nContent-Length: 5\r\n",
    ] {
        let request = format!("POST /o HTTP/1.1\r\n{HEAD}KEY\r\n{fields}\r\nhello{SMUGGLED}");
        refused(&samekey, &upstream, fields, &request).await;
    }
    for line in [
        "POST /o HTTP/1.1\n",
        "POST /o\0 HTTP/1.1\r\n",
        "POST /o HTTP/1.1 \r\n",
        "POST\t/o HTTP/1.1\r\n",
        "POST /o\r\n",
    ] {
        refused(&samekey, &upstream, line, &format!("{line}{HEAD}KEY\r\nContent-Length: 5\r\n\r\nhello{SMUGGLED}"))
            .await;
    }
    refused(&samekey, &upstream, "no Host", "POST /o HTTP/1.1\r\nKEY\r\nContent-Length: 0\r\n\r\n").await;
    refused(
        &samekey,
        &upstream,
        "1.0",
        &format!("POST /o HTTP/1.0\r\n{HEAD}KEY\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    )
    .await;
}

#[tokio::test]
async fn chunks_with_two_meanings_are_refused() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-1\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;\0\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "00000000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nContent-Length: 7\r\n\r\n",
        "5\r\nhello\r\n0\r\n folded\r\n\r\n",
        "5\r\nhello\r\n0\r\nX-Sum : 1\r\n\r\n",
    ] {
        for key in ["", "Idempotency-Key: k\r\n"] {
            let before = upstream.ledger().count();
            let mut client = samekey.connect().await;
            let head = format!("POST /o HTTP/1.1\r\n{HEAD}{key}Transfer-Encoding: chunked\r\n\r\n");
            client.send(format!("{head}{body}{SMUGGLED}").as_bytes()).await;
            if let Ok(answer) = client.try_answer().await {
                // Without a key the head may be on its way already; the upstream hears no end of the body then.
                assert!(answer.status == 400 || (key.is_empty() && answer.status == 502), "{body:?}: {answer:?}");
            }
            client.closed().await;
            let new = upstream.ledger().all().split_off(before);
            assert!(new.iter().all(|r| !r.whole && r.target == "/o"), "{body:?} reached the upstream: {new:?}");
            assert!(new.iter().all(|r| r.key().is_none()), "{body:?}: no claim without a body");
        }
    }
    let long = "e".repeat(100_000);
    let mut client = samekey.connect().await;
    client
        .send(
            format!("POST /o HTTP/1.1\r\n{HEAD}Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n5;{long}")
                .as_bytes(),
        )
        .await;
    if let Ok(answer) = client.try_answer().await {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    samekey.send(&Request::post("/o").key("k").body("text/plain", "fine")).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn odd_and_legal_framing_arrives_as_one_plain_request() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for (n, request) in [
        format!("\r\nPOST /o HTTP/1.1\r\n{HEAD}KEY\r\nContent-Length:\t5 \r\n\r\nhello"),
        format!("POST /o HTTP/1.1\r\n{HEAD}KEY\r\ntransfer-ENCODING:Chunked\r\n\r\n0005;a=\"b;c\"\r\nhello\r\n0\r\n\r\n"),
        format!("POST /o HTTP/1.1\r\n{HEAD}KEY\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n00\r\nX-Sum: 1\r\n\r\n"),
        format!("POST /o HTTP/1.0\r\n{HEAD}KEY\r\nContent-Length: 5\r\n\r\nhello"),
    ]
    .iter()
    .enumerate()
    {
        for key in [String::new(), format!("Idempotency-Key: k-{n}\r\n")] {
            let before = upstream.ledger().count();
            let mut client = samekey.connect().await;
            client.send(request.replace("KEY\r\n", &key).as_bytes()).await;
            assert_eq!(client.answer().await.status, 201, "{request:?}");
            let new = upstream.ledger().all().split_off(before);
            assert_eq!(new.len(), 1, "{request:?}");
            assert_eq!((new[0].body.as_slice(), new[0].whole), (b"hello".as_slice(), true), "{request:?}");
            let framings = new[0].headers.all("content-length").len() + new[0].headers.all("transfer-encoding").len();
            assert_eq!(framings, 1, "{request:?}: {:?}", new[0].headers);
        }
    }
}

#[tokio::test]
async fn what_follows_a_body_is_the_next_request_and_nothing_else() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    let inner = "GET /inner HTTP/1.1\r\nHost: h\r\n\r\n";
    let length = inner.len();
    let outer = format!("POST /outer HTTP/1.1\r\n{HEAD}Content-Length: {length}\r\n\r\n{inner}");
    client.send(format!("{outer}GET /next HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).await;
    client.answer().await;
    client.answer().await;
    let targets: Vec<String> = upstream.ledger().all().into_iter().map(|received| received.target).collect();
    assert_eq!(targets, ["/outer", "/next"]);
    assert_eq!(upstream.ledger().all()[0].body, inner.as_bytes());
}
