//! WebSocket by a client that browsers would recognise, and the end of tunnels.

use futures_util::{SinkExt, StreamExt};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::patience::{patiently, within};
use support::{Request, Serve};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::server;

/// Sends every message back, and names the protocol it was asked for.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let addr = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                #[expect(clippy::result_large_err, reason = "the library's signature")]
                let agree = |request: &server::Request, mut response: server::Response| {
                    assert_eq!(request.uri().path(), "/live");
                    assert!(request.headers()["via"].to_str().is_ok_and(|via| via.contains("samekey")));
                    if let Some(protocol) = request.headers().get("sec-websocket-protocol") {
                        response.headers_mut().insert("sec-websocket-protocol", protocol.clone());
                    }
                    Ok(response)
                };
                let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, agree).await else { return };
                while let Some(Ok(message)) = socket.next().await {
                    if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

#[tokio::test]
async fn messages_pass_both_ways_and_the_farewell_too() {
    let samekey = Serve::to(&format!("http://{}", echo().await)).start().await;
    let mut request = format!("ws://{}/live", samekey.addr).into_client_request().expect("a request");
    request.headers_mut().insert("sec-websocket-protocol", "chat".parse().unwrap());
    let (mut socket, answer) =
        patiently("the handshake", tokio_tungstenite::connect_async(request)).await.expect("101");
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["sec-websocket-protocol"], "chat");
    for message in [Message::text("hello"), Message::binary(vec![7; 3_000_000]), Message::text("")] {
        socket.send(message.clone()).await.expect("sent");
        assert_eq!(patiently("an echo", socket.next()).await.expect("open").expect("a message"), message);
    }
    socket.close(None).await.expect("a farewell");
    let last = patiently("the answer to it", socket.next()).await;
    assert!(matches!(last, Some(Ok(Message::Close(_)))), "{last:?}");
}

#[tokio::test]
async fn a_tunnel_goes_on_through_the_drain_and_is_closed_at_its_end() {
    let samekey = Serve::to(&format!("http://{}", echo().await)).set("--drain", "3s");
    let mut samekey = samekey.start().await;
    let url = format!("ws://{}/live", samekey.addr);
    let (mut socket, _) = patiently("the handshake", tokio_tungstenite::connect_async(url)).await.expect("101");
    let begun = Instant::now();
    samekey.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    socket.send(Message::text("still here")).await.expect("sent");
    assert_eq!(patiently("an echo", socket.next()).await.unwrap().unwrap(), Message::text("still here"));
    let end = within(Duration::from_secs(5), "the tunnel's end", socket.next()).await;
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    assert!(samekey.exited().await.success(), "a tunnel leaves no outcome open");
    assert!(begun.elapsed() >= Duration::from_secs(2), "not before the drain was over");
}

#[tokio::test]
async fn a_drain_ends_with_the_last_tunnel() {
    let mut samekey = Serve::to(&format!("http://{}", echo().await)).start().await;
    let url = format!("ws://{}/live", samekey.addr);
    let (mut socket, _) = patiently("the handshake", tokio_tungstenite::connect_async(url)).await.expect("101");
    samekey.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(300)).await;
    socket.close(None).await.expect("a farewell");
    while let Some(Ok(_)) = patiently("the end", socket.next()).await {}
    drop(socket);
    assert!(within(Duration::from_secs(10), "leaving before --drain", samekey.exited()).await.success());
}

#[tokio::test]
async fn a_service_that_does_not_agree_answers_as_usual() {
    let upstream = support::Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    let asks = Request::new("GET", "/live").header("Connection", "Upgrade").header("Upgrade", "websocket");
    assert_eq!(client.exchange(&asks).await.status, 201);
    client.exchange(&Request::order("k")).await.ran(201, "completed", 1);
}
