//! Clients that hardly move: they are given up, and what they held is free again.

use std::time::{Duration, Instant};
use support::patience::within;
use support::{Reply, Request, Serve, Server, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// All of them at once: each mostly waits.
#[tokio::test]
async fn the_slow_are_given_up_each_in_its_time() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--max-buffered", "64KiB").start().await;
    tokio::join!(
        a_body_that_stands_still(&samekey),
        a_body_that_drips(&samekey),
        a_silent_client(&samekey, b""),
        a_silent_client(&samekey, b"PRI * HTTP/2.0\r\n\r\nSM"),
        a_silent_client(&samekey, b"POST /orders HTTP/1.1\r\nHost: h\r\n"),
    );
    assert_eq!(upstream.ledger().count(), 0, "nothing of it ran");
    let whole = Request::post("/f").key("still").body("text/plain", vec![b'x'; 60_000]);
    samekey.send(&whole).await.ran(201, "completed", 1);
}

async fn a_body_that_stands_still(samekey: &Server) {
    let upload = Request::post("/f").key("still").body("text/plain", vec![b'x'; 60_000]);
    let mut client = samekey.connect().await;
    let bytes = upload.bytes();
    let begun = Instant::now();
    client.send(&bytes[..bytes.len() - 10_000]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = Request::post("/f").key("other").body("text/plain", vec![b'x'; 60_000]);
    samekey.send(&other).await.refuses(503, "overloaded", "retry_same_key", "unknown");
    let answer = within(Duration::from_secs(35), "an answer to half a body", client.answer()).await;
    answer.refuses(408, "body_timeout", "retry_same_key", "none");
    assert!(begun.elapsed() >= Duration::from_secs(19), "{:?}", begun.elapsed());
    within(Duration::from_secs(10), "the end of its connection", client.closed()).await;
}

async fn a_body_that_drips(samekey: &Server) {
    let mut client = samekey.connect().await;
    client.send(&Request::post("/f").key("drip").body("text/plain", [b'x'; 1000]).head_bytes()).await;
    let dripped = async {
        loop {
            tokio::select! {
                answer = client.answer() => return answer,
                () = tokio::time::sleep(Duration::from_millis(500)) => client.send(b"x").await,
            }
        }
    };
    let answer = within(Duration::from_secs(35), "an answer to a drip", dripped).await;
    answer.refuses(408, "body_timeout", "retry_same_key", "none");
}

async fn a_silent_client(samekey: &Server, first: &[u8]) {
    let mut client = TcpStream::connect(samekey.addr).await.expect("connect");
    let begun = Instant::now();
    client.write_all(first).await.expect("sent");
    let mut last = Vec::new();
    within(Duration::from_secs(60), "its end", client.read_to_end(&mut last)).await.ok();
    assert!(begun.elapsed() >= Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn who_does_not_read_is_given_up() {
    let upstream = Upstream::start().await;
    upstream.next(Reply::with(200, "text/plain", vec![b'x'; 64 << 20]));
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    let begun = Instant::now();
    client.request(&Request::new("GET", "/large")).await;
    let relieved = async {
        while upstream.ledger().hang_ups() == 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    within(Duration::from_secs(90), "the upstream's relief", relieved).await;
    assert!(begun.elapsed() >= Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn who_reads_slowly_is_served() {
    let upstream = Upstream::start().await;
    let chunk = vec![b'x'; 1 << 20];
    upstream.next(Reply::chunked(200, "text/plain", &[&chunk[..]; 16]));
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    client.request(&Request::new("GET", "/large")).await;
    client.opened().await;
    let mut read = 0;
    while let Some(chunk) = client.chunk().await.expect("a chunk") {
        read += chunk.len();
        if read % (1 << 20) < chunk.len() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert_eq!(read, 16 << 20);
}
