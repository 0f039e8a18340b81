//! Against scripted upstreams on raw sockets: a thread that reads and writes exactly what it says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use http_body_util::BodyExt as _;
use tower::{Service as _, ServiceExt as _};

use super::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An upstream whose every connection runs `script` with the connection's number.
struct Upstream {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Upstream {
    fn new(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
                let script = Arc::clone(&script);
                thread::spawn(move || script(stream, number));
            }
        });
        Self { address, connections }
    }

    /// One that notes each request and answers all of them.
    fn recording() -> (Self, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let upstream = Self::new(move |mut stream, _| {
            while let Some(request) = read_request(&mut stream) {
                notes.lock().unwrap().push(request);
                if stream.write_all(OK).is_err() {
                    return;
                }
            }
        });
        (upstream, seen)
    }

    fn forward(&self) -> Forward {
        self.forward_with("", |_| {})
    }

    fn forward_with(&self, path: &str, change: impl FnOnce(&mut ForwardConfig)) -> Forward {
        let mut config = config(format!("http://{}{path}", self.address).parse().unwrap());
        change(&mut config);
        Forward::new(config).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn config(upstream: Uri) -> ForwardConfig {
    ForwardConfig {
        upstream,
        upstream_ca: None,
        trusted: Trusted::Loopback,
        connect_timeout: Duration::from_secs(5),
        upstream_idle: Duration::from_secs(2),
    }
}

/// Head and body (by its length) of the next request, or `None` at the end.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
}

/// Waits for a request, then closes without having read it: the kernel sends a reset.
fn reset(stream: &TcpStream) {
    let _ = stream.peek(&mut [0]);
}

fn post(uri: &str) -> Request<Body> {
    Request::post(uri).header(HOST, "shop.example").body(Body::from("hello")).unwrap()
}

fn claimed(uri: &str) -> Request<Body> {
    let mut request = post(uri);
    request.headers_mut().insert(names::ATTEMPT, HeaderValue::from_static("1"));
    request
}

async fn send(forward: &Forward, request: Request<Body>) -> Response<Body> {
    forward.clone().ready().await.unwrap().call(request).await.unwrap()
}

async fn send_whole(forward: &Forward, request: Request<Body>) -> Result<String, Failure> {
    let response = send(forward, request).await;
    if let Some(failure) = response.extensions().get::<Failure>() {
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        return Err(failure.clone());
    }
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

#[track_caller]
fn assert_unknown(outcome: &Result<String, Failure>) {
    assert!(matches!(outcome, Err(Failure::Unknown { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_refused_connection_means_not_sent() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let forward = Forward::new(config(format!("http://{free}").parse().unwrap())).unwrap();
    for request in [post("/"), claimed("/")] {
        let failure = send_whole(&forward, request).await.unwrap_err();
        assert!(matches!(failure, Failure::NotSent { .. }), "{failure:?}");
    }
}

#[tokio::test]
async fn an_unknown_name_means_not_sent() {
    let upstream = "http://no-such-host.invalid".parse().unwrap();
    let forward = Forward::new(config(upstream)).unwrap();
    let failure = send_whole(&forward, claimed("/")).await.unwrap_err();
    assert!(matches!(failure, Failure::NotSent { .. }), "{failure:?}");
}

#[tokio::test]
async fn a_reset_before_the_answer_is_unknown_and_never_resent() {
    let upstream = Upstream::new(|stream, _| reset(&stream));
    let forward = upstream.forward();
    assert_unknown(&send_whole(&forward, claimed("/")).await);
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn an_end_without_an_answer_is_unknown() {
    let upstream = Upstream::new(|mut stream, _| drop(read_request(&mut stream)));
    assert_unknown(&send_whole(&upstream.forward(), claimed("/")).await);
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_unknown() {
    let upstream = Upstream::new(|mut stream, _| {
        read_request(&mut stream);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
    });
    assert_unknown(&send_whole(&upstream.forward(), claimed("/")).await);
}

#[tokio::test]
async fn a_kept_connection_that_resets_under_the_request_is_unknown_and_never_resent() {
    let upstream = Upstream::new(|mut stream, _| {
        read_request(&mut stream);
        let _ = stream.write_all(OK);
        reset(&stream);
    });
    let forward = upstream.forward();
    assert_eq!(send_whole(&forward, claimed("/")).await.unwrap(), "ok");
    assert_unknown(&send_whole(&forward, claimed("/")).await);
    assert_eq!(upstream.connections(), 1);
}

/// The race itself, many times: the upstream closes each connection right after its answer,
/// without saying so, while the next request is on its way.
#[tokio::test]
async fn no_request_arrives_twice_however_the_race_ends() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let upstream = Upstream::new(move |mut stream, _| {
        if let Some(request) = read_request(&mut stream) {
            notes.lock().unwrap().push(request.lines().next().unwrap().to_owned());
            let _ = stream.write_all(OK);
        }
    });
    let forward = upstream.forward();
    let mut answered = 0;
    for number in 0..200 {
        match send_whole(&forward, claimed(&format!("/{number}"))).await {
            Ok(body) => {
                assert_eq!(body, "ok");
                answered += 1;
            }
            Err(Failure::NotSent { detail }) => {
                let line = format!("POST /{number} HTTP/1.1");
                assert!(!seen.lock().unwrap().contains(&line), "{line} arrived: {detail}");
            }
            Err(_) => {}
        }
    }
    let mut seen = seen.lock().unwrap();
    assert!(answered > 0 && seen.len() >= answered);
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "a request arrived twice");
}

#[tokio::test]
async fn a_connection_that_closed_while_idle_is_replaced_in_silence() {
    let upstream = Upstream::new(|mut stream, _| {
        read_request(&mut stream);
        let _ = stream.write_all(OK);
    });
    let forward = upstream.forward();
    for _ in 0..3 {
        assert_eq!(send_whole(&forward, claimed("/")).await.unwrap(), "ok");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(upstream.connections(), 3);
}

#[tokio::test]
async fn a_claim_never_goes_out_on_a_connection_that_idled_too_long() {
    let (upstream, _) = Upstream::recording();
    let forward = upstream.forward_with("", |config| {
        config.upstream_idle = Duration::from_millis(100);
    });
    for request in [claimed("/"), claimed("/")] {
        send_whole(&forward, request).await.unwrap();
    }
    assert_eq!(upstream.connections(), 1, "a fresh one is used again");
    tokio::time::sleep(Duration::from_millis(250)).await;
    send_whole(&forward, claimed("/")).await.unwrap();
    assert_eq!(upstream.connections(), 2);

    send_whole(&forward, post("/")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    send_whole(&forward, post("/")).await.unwrap();
    assert_eq!(upstream.connections(), 3, "others have a pool and a limit of their own");
}

/// What each truncated answer gives: a head, then an error instead of an end.
#[tokio::test]
async fn a_truncated_answer_never_looks_whole() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ] {
        let upstream = Upstream::new(move |mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(answer.as_bytes());
        });
        let response = send(&upstream.forward(), claimed("/")).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.extensions().get::<Failure>().is_none());
        assert!(response.into_body().collect().await.is_err(), "{answer:?}");
    }
}

/// Headers end at an empty line; before that there is no answer at all.
#[tokio::test]
async fn a_truncated_head_is_unknown() {
    let upstream = Upstream::new(|mut stream, _| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le");
    });
    assert_unknown(&send_whole(&upstream.forward(), claimed("/")).await);
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_body_is_an_error_of_the_body() {
    let upstream = Upstream::new(|mut stream, _| {
        // Only the first byte is read: closing then resets.
        let _ = stream.read(&mut [0]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello");
        thread::sleep(Duration::from_millis(50));
    });
    let response = send(&upstream.forward(), claimed("/")).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn an_unasked_switch_of_protocols_is_unknown() {
    let upstream = Upstream::new(|mut stream, _| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    });
    assert_unknown(&send_whole(&upstream.forward(), claimed("/")).await);
}

#[tokio::test]
async fn path_and_query_arrive_byte_for_byte() {
    let (upstream, seen) = Upstream::recording();
    for (base, sent, arrived) in [
        ("", "/", "/"),
        ("", "/a%2Fb//c/../d;e?x=1&&y=%zz?", "/a%2Fb//c/../d;e?x=1&&y=%zz?"),
        ("", "/lone?", "/lone?"),
        ("/api/", "/orders?x=1", "/api/orders?x=1"),
        ("/api", "/", "/api/"),
        ("/api", "//x", "/api//x"),
        ("", "http://other.example:81/abs?x", "/abs?x"),
        ("/api", "http://other.example?x", "/api/?x"),
    ] {
        let forward = upstream.forward_with(base, |_| {});
        send_whole(&forward, post(sent)).await.unwrap();
        let request = seen.lock().unwrap().pop().unwrap();
        let line = request.lines().next().unwrap();
        assert_eq!(line, format!("POST {arrived} HTTP/1.1"), "{base} + {sent}");
        let host = if sent.contains(":81") {
            "other.example:81"
        } else if sent.starts_with("http:") {
            "other.example"
        } else {
            "shop.example"
        };
        assert_eq!(header(&request, "host"), Some(host));
    }
}

#[tokio::test]
async fn options_of_the_whole_server_keep_their_star() {
    let (upstream, seen) = Upstream::recording();
    let request = Request::options("*").header(HOST, "shop.example").body(Body::empty()).unwrap();
    send_whole(&upstream.forward_with("/api", |_| {}), request).await.unwrap();
    assert!(seen.lock().unwrap()[0].starts_with("OPTIONS * HTTP/1.1\r\n"), "{seen:?}");
}

#[tokio::test]
async fn headers_of_one_hop_end_here_in_both_directions() {
    let seen = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&seen);
    let upstream = Upstream::new(move |mut stream, _| {
        *note.lock().unwrap() = read_request(&mut stream).unwrap();
        let _ = stream.write_all(
            b"HTTP/1.1 201 Created\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
              Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n\
              2\r\nok\r\n0\r\n\r\n",
        );
    });
    let request = Request::post("/")
        .version(Version::HTTP_10)
        .header("connection", "x-hop, upgrade, idempotency-key")
        .header("upgrade", "websocket")
        .header("te", "trailers")
        .header("expect", "100-continue")
        .header("x-hop", "1")
        .header("idempotency-key", "k")
        .body(Body::from("hello"))
        .unwrap();
    let response = send(&upstream.forward(), request).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let names: Vec<_> = response.headers().keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["set-cookie"]);
    assert_eq!(response.headers().get_all("set-cookie").iter().count(), 2);

    let request = seen.lock().unwrap();
    for gone in ["upgrade", "expect", "x-hop"] {
        assert_eq!(header(&request, gone), None, "{request}");
    }
    assert_eq!((header(&request, "te"), header(&request, "connection")), (Some("trailers"), Some("te")), "said anew");
    assert_eq!(header(&request, "idempotency-key"), Some("k"));
    assert_eq!(header(&request, "host"), Some(upstream.address.to_string().as_str()));
    assert!(request.starts_with("POST / HTTP/1.1\r\n") && request.ends_with("\r\n\r\nhello"), "{request}");
}

#[tokio::test]
async fn what_cannot_be_forwarded_is_refused_before_a_connection() {
    let (upstream, seen) = Upstream::recording();
    let forward = upstream.forward();
    let tunnel = Request::connect("other.example:443").body(Body::empty()).unwrap();
    assert_eq!(send(&forward, tunnel).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    let coded = Request::post("/").header("transfer-encoding", "gzip, chunked").body(Body::empty()).unwrap();
    assert_eq!(send(&forward, coded).await.status(), StatusCode::NOT_IMPLEMENTED);
    assert!(seen.lock().unwrap().is_empty());
}

/// Dropping the answer's future is how a deadline ends an attempt: the upstream must notice.
#[tokio::test]
async fn giving_up_closes_the_connection() {
    let (told, hears) = std::sync::mpsc::channel();
    let upstream = Upstream::new(move |mut stream, _| {
        read_request(&mut stream);
        let end = stream.read(&mut [0]);
        told.send(matches!(end, Ok(0) | Err(_))).unwrap();
    });
    let forward = upstream.forward();
    let given_up = tokio::time::timeout(Duration::from_millis(100), send(&forward, claimed("/"))).await;
    assert!(given_up.is_err());
    let closed = tokio::task::spawn_blocking(move || hears.recv_timeout(Duration::from_secs(5)));
    assert_eq!(closed.await.unwrap(), Ok(true));
}

#[test]
fn an_upstream_that_cannot_work_is_refused_by_name() {
    for (upstream, error) in [
        ("127.0.0.1:3000", UpstreamError::Scheme),
        ("/shop", UpstreamError::Scheme),
        ("ftp://shop.example", UpstreamError::Scheme),
        ("http://user:secret@shop.example", UpstreamError::UserInfo),
        ("http://shop.example/?x=1", UpstreamError::Query),
    ] {
        assert_eq!(Forward::new(config(upstream.parse().unwrap())).err(), Some(error), "{upstream}");
    }
    assert!(Forward::new(config("http://shop.example/api/".parse().unwrap())).is_ok());
}
