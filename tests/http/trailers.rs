//! Fields after the body, in both directions.

use support::{Reply, Request, Serve, Upstream};

const ANSWER: &str = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
    2\r\nok\r\n0\r\nX-Sum: 42\r\nSamekey-State: forged\r\n\r\n";

#[tokio::test]
async fn an_answers_trailers_reach_who_asked_for_them_and_are_not_stored() {
    let upstream = Upstream::start().await;
    upstream.script(|_| Reply::raw(ANSWER));
    let samekey = Serve::before(&upstream).start().await;
    for (key, te, expected) in
        [("a", "trailers", vec!["42"]), ("b", "gzip", vec![]), ("c", "gzip, Trailers", vec!["42"])]
    {
        let order = Request::order(key).header("TE", te).header("Connection", "TE");
        let first = samekey.send(&order).await;
        first.ran(201, "completed", 1);
        assert_eq!(first.trailers.all("x-sum"), expected, "{te}");
        assert!(first.trailers.all("samekey-state").is_empty());
        assert_eq!(
            upstream.ledger().last().headers.all("te"),
            if expected.is_empty() { vec![] } else { vec!["trailers"] }
        );
        let again = samekey.send(&order).await;
        again.replays(&first);
        assert_eq!(again.trailers, support::wire::Headers::default());

        let plain = Request::new("GET", "/orders").header("TE", te).header("Connection", "TE");
        assert_eq!(samekey.send(&plain).await.trailers.all("x-sum"), expected, "uncovered, {te}");
    }
}

#[tokio::test]
async fn a_requests_trailers_reach_the_upstream() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for (n, key) in ["", "Idempotency-Key: k\r\n"].iter().enumerate() {
        let mut client = samekey.connect().await;
        let head = format!("POST /o HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\n{key}Trailer: X-Sum\r\n");
        let body = "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\nSamekey-Attempt: 9\r\n\r\n";
        client.send(format!("{head}{body}").as_bytes()).await;
        assert_eq!(client.answer().await.status, 201);
        let received = upstream.ledger().arrived(n + 1).await;
        assert_eq!(
            (received.body.as_slice(), received.trailers.all("x-sum")),
            (b"ok".as_slice(), vec!["42".to_owned()])
        );
        assert!(received.trailers.all("samekey-attempt").is_empty());
    }
}
