//! Large bodies and event streams on routes that are not covered: they pass at the pace of the slower side, and
//! nothing of them is kept.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::patience::within;
use support::{Gate, Reply, Request, Serve, Server, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SIZE: usize = 256 << 20;
/// What the process may need beyond what it needs at rest, whatever the size.
const FLAT: usize = 24 << 20;

/// Sends as much as it is asked for, or takes what comes.
async fn warehouse() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let addr = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let block = vec![b'x'; 64 << 10];
                if head.starts_with(b"GET") {
                    stream
                        .write_all(
                            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {SIZE}\r\n\r\n")
                                .as_bytes(),
                        )
                        .await?;
                    for _ in 0..SIZE / block.len() {
                        stream.write_all(&block).await?;
                    }
                } else {
                    let read = tokio::io::copy(&mut (&mut stream).take(SIZE as u64), &mut tokio::io::sink()).await?;
                    assert_eq!(read, SIZE as u64);
                    stream
                        .write_all(b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
                        .await?;
                }
                // The other end closes.
                stream.read_u8().await.map(drop).or(Ok::<(), std::io::Error>(()))
            });
        }
    });
    addr
}

async fn download(addr: SocketAddr) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(addr).await.expect("connect");
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.expect("sent");
    let read = tokio::io::copy(&mut (&mut stream).take(SIZE as u64), &mut tokio::io::sink()).await.expect("an answer");
    assert_eq!(read, SIZE as u64);
    begun.elapsed()
}

async fn upload(addr: SocketAddr) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(addr).await.expect("connect");
    let head = format!("PUT /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {SIZE}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let block = vec![b'x'; 64 << 10];
    for _ in 0..SIZE / block.len() {
        stream.write_all(&block).await.expect("sent");
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 201");
    begun.elapsed()
}

fn peak(samekey: &Server) -> usize {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", samekey.pid().as_raw_nonzero())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "the figure is what people want to see")]
async fn large_bodies_pass_with_flat_memory() {
    let warehouse = warehouse().await;
    let samekey = Serve::to(&format!("http://{warehouse}")).start().await;
    let at_rest = peak(&samekey);
    let direct = (download(warehouse).await, upload(warehouse).await);
    let proxied = (download(samekey.addr).await, upload(samekey.addr).await);
    let grown = peak(&samekey) - at_rest;
    let ratio = |proxied: Duration, direct: Duration| proxied.as_secs_f64() / direct.as_secs_f64();
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    eprintln!(
        "256 MiB: down {direct_down:?} directly, {down:.1} times as long through the proxy; up {direct_up:?}, {up:.1} \
         times; memory grew by {grown} KiB ({build} build)",
        direct_down = direct.0,
        down = ratio(proxied.0, direct.0),
        direct_up = direct.1,
        up = ratio(proxied.1, direct.1),
        grown = grown / 1024,
    );
    assert!(grown < FLAT, "memory grew by {grown} bytes");
}

#[tokio::test]
async fn a_reader_that_stops_stops_the_sender() {
    let warehouse = warehouse().await;
    let samekey = Serve::to(&format!("http://{warehouse}")).start().await;
    let at_rest = peak(&samekey);
    let mut stream = TcpStream::connect(samekey.addr).await.expect("connect");
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("sent");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(peak(&samekey) - at_rest < FLAT, "what nobody reads is not collected");
    let rest = async { tokio::io::copy(&mut (&mut stream).take(SIZE as u64), &mut tokio::io::sink()).await };
    assert_eq!(within(Duration::from_secs(60), "the rest", rest).await.expect("an answer"), SIZE as u64);
}

#[tokio::test]
async fn events_arrive_when_they_happen() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let gate = Gate::new();
    let events = Reply::chunked(200, "text/event-stream", &[b"data: 1\n\n"]);
    upstream.next(events.then_gated(&gate, &[b"data: 2\n\n"]));
    let mut client = samekey.connect().await;
    client.request(&Request::new("GET", "/events").header("Accept", "text/event-stream")).await;
    assert_eq!(client.opened().await.status, 200);
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"data: 1\n\n");
    gate.open();
    assert_eq!(client.chunk().await.expect("a chunk").expect("not the end"), b"data: 2\n\n");
    assert_eq!(client.chunk().await.expect("the last chunk"), None);
}
