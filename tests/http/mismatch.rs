//! The same key with another payload, and payloads that only look different.

use support::{Gate, Reply, Request, Serve, Upstream};

#[tokio::test]
async fn another_payload_under_the_key_is_refused_and_the_handler_not_called() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::order("k-1")).await;
    let order = r#"{"sku":"tea","qty":1}"#;
    let others = [
        Request::post("/orders").key("k-1").json(r#"{"sku":"tea","qty":2}"#),
        Request::post("/orders?dry=1").key("k-1").json(order),
        Request::post("/orders").key("k-1").body("text/plain", order),
        Request::post("/orders").key("k-1").json(r#"{"sku":"tea","qty":"1"}"#),
        Request::post("/orders").key("k-1").json(r#"{"sku":"tea","qty":1,"qty":1}"#),
        Request::post("/orders").key("k-1").json(r#"{"sku":"tea","qty":1"#),
        Request::post("/orders").key("k-1"),
    ];
    for other in &others {
        let answer = samekey.send(other).await;
        let problem = answer.refuses(409, "key_payload_mismatch", "new_intent", "refused");
        assert!(!problem.json.to_string().contains("tea"), "nothing of the other payload: {}", problem.json);
    }
    samekey.send(&Request::order("k-1")).await.replays(&first);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn another_payload_is_refused_at_once_while_the_first_runs() {
    let upstream = Upstream::start().await;
    let gate = Gate::new();
    upstream.next(Reply::json(201, "{}").gated(&gate));
    let samekey = Serve::before(&upstream).waits("20s", "25s").start().await;
    let first = samekey.spawn(&Request::order("k-1"));
    upstream.ledger().arrived(1).await;
    let other = Request::post("/orders").key("k-1").json(r#"{"sku":"coffee"}"#);
    let answer = support::patience::within(std::time::Duration::from_secs(5), "no waiting", samekey.send(&other)).await;
    answer.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    assert_eq!(upstream.ledger().count(), 1);
    gate.open();
    first.await.expect("the first answer").ran(201, "completed", 1);
}

#[tokio::test]
async fn the_fingerprint_stays_bound_after_release_and_uncertainty() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    upstream.next(Reply::json(401, "{}")).next(Reply::reset());
    samekey.send(&Request::order("released")).await.ran(401, "released", 1);
    samekey.send(&Request::order("lost")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    for key in ["released", "lost"] {
        let other = Request::post("/orders").key(key).json(r#"{"sku":"coffee"}"#);
        samekey.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
        assert_eq!(upstream.effects(key), 1);
    }
}

#[tokio::test]
async fn the_ietf_profile_says_422() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--profile", "ietf").start().await;
    samekey.send(&Request::order("\"k-1\"")).await.ran(201, "completed", 1);
    let other = Request::post("/orders").key("\"k-1\"").json("{}");
    samekey.send(&other).await.refuses(422, "key_payload_mismatch", "new_intent", "refused");
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn equal_json_in_another_spelling_is_the_same_payload() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::order("k-1")).await;
    let spellings = [
        "{ \"qty\" : 1.0,\r\n\t\"sku\":\"te\\u0061\" }",
        r#"{"qty":10e-1,"sku":"\u0074ea"}"#,
        r#"{"sku":"tea","qty":1}"#,
    ];
    for spelling in spellings {
        samekey.send(&Request::post("/orders").key("k-1").json(spelling)).await.replays(&first);
        samekey.send(&Request::post("/orders").key("k-1").json(spelling).chunked()).await.replays(&first);
    }
    let charset = Request::post("/orders").key("k-1").body("Application/JSON; charset=utf-8", spellings[2]);
    samekey.send(&charset).await.replays(&first);
    assert_eq!(upstream.effects("k-1"), 1);
}

#[tokio::test]
async fn numbers_past_double_precision_stay_different() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::post("/o").key("k").json(r#"{"n":9007199254740992}"#)).await.ran(201, "completed", 1);
    let other = Request::post("/o").key("k").json(r#"{"n":9007199254740993}"#);
    samekey.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    samekey.send(&Request::post("/o").key("e").json(r#"{"n":1e999999999}"#)).await.ran(201, "completed", 1);
}

#[tokio::test]
async fn a_form_counts_in_order_and_by_bytes() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let form = |body: &str| Request::post("/o").key("k").body("application/x-www-form-urlencoded", body);
    let first = samekey.send(&form("sku=tea+bag&note=%FF")).await;
    first.ran(201, "completed", 1);
    samekey.send(&form("sku=tea%20bag&note=%ff")).await.replays(&first);
    for other in ["note=%FF&sku=tea+bag", "sku=tea+bag&note=%FE", "sku=tea+bag"] {
        samekey.send(&form(other)).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    }
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn the_boundary_of_a_multipart_body_does_not_count() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let upload = |boundary: &str, content: &str| {
        let part = "Content-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\nContent-Type: text/plain";
        let body = format!("--{boundary}\r\n{part}\r\n\r\n{content}\r\n--{boundary}--\r\n");
        Request::post("/o").key("k").body(&format!("multipart/form-data; boundary={boundary}"), body)
    };
    let first = samekey.send(&upload("aaa", "tea")).await;
    first.ran(201, "completed", 1);
    samekey.send(&upload("bbb", "tea")).await.replays(&first);
    samekey.send(&upload("aaa", "tee")).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn a_body_that_is_not_what_it_claims_counts_byte_by_byte() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies: [&[u8]; 6] =
        [b"{\"a\":1,\"a\":1}", b"{\"a\":\xff}", b"{} {}", b"\"\\ud800\"", deep.as_bytes(), b"\xef\xbb\xbf{}"];
    for (n, body) in bodies.iter().enumerate() {
        let request = Request::post("/o").key(format!("k-{n}")).body("application/json", body);
        let first = samekey.send(&request).await;
        first.ran(201, "completed", 1);
        assert_eq!(&upstream.ledger().last().body, body, "passed on as it is");
        samekey.send(&request).await.replays(&first);
        let spaced = [body, b" ".as_slice()].concat();
        let other = Request::post("/o").key(format!("k-{n}")).body("application/json", spaced);
        samekey.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    }
}

#[tokio::test]
async fn no_body_and_an_empty_body_are_the_same_and_a_lone_question_mark_is_no_query() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&Request::post("/o").key("k")).await;
    first.ran(201, "completed", 1);
    let mut client = samekey.connect().await;
    let bare = "POST /o HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer token-of-ann\r\nIdempotency-Key: k\r\n\r\n";
    client.send(bare.as_bytes()).await;
    client.answer().await.replays(&first);
    samekey.send(&Request::post("/o?").key("k")).await.replays(&first);
    samekey.send(&Request::post("/o?a").key("k")).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    assert_eq!(upstream.effects("k"), 1);
}
