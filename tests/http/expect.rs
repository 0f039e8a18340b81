//! `Expect: 100-continue`: the body is asked for only when everything that needs no body has been checked.

use support::{Request, Serve, Upstream};

#[tokio::test]
async fn a_refusal_that_needs_no_body_comes_without_asking_for_it() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--max-body", "64KiB").start().await;
    let expecting = |key: &str| {
        let body = vec![b'x'; 1000];
        Request::post("/f").key(key).body("text/plain", body).header("Expect", "100-continue")
    };
    let large = Request::post("/f").key("k").body("text/plain", vec![b'x'; 100_000]).header("Expect", "100-continue");
    for (status, request) in [(401, expecting("k").anonymous()), (400, expecting("no such key")), (413, large)] {
        let mut client = samekey.connect().await;
        client.send(&request.head_bytes()).await;
        let head = client.any_head().await;
        assert!(head.first_line.contains(&format!(" {status} ")), "{}", head.first_line);
        assert_eq!(head.headers.one("connection").as_deref(), Some("close"), "the body must not follow");
        client.closed().await;
    }
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn what_is_let_through_is_asked_for_and_the_upstream_hears_nothing_of_it() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for request in [Request::order("k"), Request::post("/o").json("{}")] {
        let request = request.header("Expect", "100-Continue");
        let mut client = samekey.connect().await;
        for _ in 0..2 {
            client.send(&request.head_bytes()).await;
            assert!(client.any_head().await.first_line.contains(" 100 "));
            client.send(&request.body_bytes()).await;
            let answer = client.answer().await;
            assert_eq!(answer.status, 201);
            assert_eq!(answer.header("connection"), None, "the connection goes on");
        }
    }
    assert!(upstream.ledger().all().iter().all(|received| received.headers.all("expect").is_empty()));
}

#[tokio::test]
async fn a_refused_body_that_comes_anyway_does_not_hide_the_answer() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    let refused = Request::post("/f").key("k").body("text/plain", vec![b'x'; 4_000_000]).anonymous();
    client.exchange(&refused).await.refuses(401, "actor_required", "sign_in", "none");
    client.exchange(&Request::order("next")).await.ran(201, "completed", 1);
    assert_eq!(upstream.ledger().count(), 1);
}
