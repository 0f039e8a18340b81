//! samekey killed and stopped: what it left is settled by whoever comes after.

use rustix::process::Signal;
use std::net::SocketAddr;
use std::time::Duration;
use support::patience::patiently;
use support::{Request, Serve, Server};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::shop::{Fate, PROBED, Shop};

#[tokio::test]
async fn what_a_killed_samekey_left_is_settled_after_the_restart() {
    let shop = Shop::open().await;
    let serve = shop.serve(PROBED);
    let samekey = serve.start().await;
    shop.fate(Fate::Silent);
    let lost = samekey.spawn(&Request::order("k"));
    while shop.orders("k") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let samekey = samekey.kill().await.start().await;
    assert!(lost.await.is_err(), "the caller heard nothing");
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(found.replayed());
    assert_eq!((shop.orders("k"), shop.commands("k")), (1, 1));
    // Nobody has to retry for it: silent claims are looked for.
    let logs = samekey.logs.text();
    assert!(logs.contains("reason=\"lapse\"") || logs.contains("event=\"probe\""), "{logs}");
}

#[tokio::test]
async fn a_record_that_nobody_retries_is_settled_all_the_same() {
    let shop = Shop::open().await;
    let samekey = shop.serve(PROBED).start().await;
    shop.fate(Fate::Silent);
    let lost = samekey.spawn(&Request::order("k"));
    while shop.orders("k") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let samekey = samekey.kill().await.start().await;
    assert!(lost.await.is_err());
    let lapsed = samekey.logs.line_with("event=\"uncertain\"").await.expect("a line");
    assert!(lapsed.contains("reason=\"lapse\"") && lapsed.contains("key_hash="), "{lapsed}");
    samekey.logs.line_with("event=\"settled\"").await.expect("a line");
    let replay = samekey.send(&Request::order("k")).await;
    assert_eq!((replay.status, replay.replayed()), (201, true));
}

async fn pair(serve: Serve) -> (Server, Server) {
    (serve.start().await, serve.start().await)
}

/// A listener that lets nobody in: its queue is full, so whoever connects waits, and the kernel tries again for it.
struct Door {
    listener: TcpListener,
    queue: Vec<TcpStream>,
}

impl Door {
    async fn shut() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("bind");
        let listener = socket.listen(1).expect("listen");
        let addr = listener.local_addr().expect("its address");
        let mut queue = Vec::new();
        while let Ok(waiting) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(addr)).await {
            queue.push(waiting.expect("a connection"));
        }
        Self { listener, queue }
    }

    fn addr(&self) -> SocketAddr {
        self.listener.local_addr().expect("its address")
    }

    /// Lets in those who queue, and then the one who waited: its connection is open from here on.
    async fn open(&self) -> TcpStream {
        for _ in &self.queue {
            self.listener.accept().await.expect("a filler");
        }
        patiently("the one who waited", self.listener.accept()).await.expect("a connection").0
    }
}

/// One process claims, and is stopped while it connects to the service, for longer than its lease and `probe_after`
/// together; the other one settles the record and runs the command. Then the first one goes on, connected.
#[tokio::test]
async fn a_process_that_was_stopped_between_claim_and_effect_runs_nothing_a_second_time() {
    let shop = Shop::open().await;
    // Not the shortest times: it must be stopped before it gives up by itself, also on a machine that is busy.
    let serve = shop.serve(PROBED).set("--lease", "2s").set("--timeout", "5s").set("--probe-after", "3s");
    let other = serve.start().await;
    let door = Door::shut().await;
    let url = format!("http://{}", door.addr());
    let stopped = serve.set("--upstream", &url).set("--connect-timeout", "60s").start().await;
    let sent = stopped.spawn(&Request::order("k"));
    other
        .until(&Request::new("GET", "/.well-known/samekey/status?operation=orders.create").key("k"), |answer| {
            answer.status == 200
        })
        .await;
    stopped.signal(Signal::STOP);
    let ran = other.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert_eq!((ran.receipt().attempt, shop.orders("k")), (Some(2), 1));
    let mut late = door.open().await;
    stopped.signal(Signal::CONT);
    let heard = sent.await.expect("an answer");
    assert!(heard.status == 504 || heard.replayed(), "its own timeout, or how it ended elsewhere: {heard:?}");
    let mut bytes = [0; 1024];
    let sent = patiently("the end of the connection", late.read(&mut bytes)).await;
    assert!(matches!(sent, Ok(0) | Err(_)), "sent: {}", String::from_utf8_lossy(&bytes));
    let replay = other.send(&Request::order("k")).await;
    replay.replays(&ran);
    assert_eq!(shop.orders("k"), 1);
}

#[tokio::test]
async fn of_two_processes_one_asks_about_each_record() {
    let shop = Shop::open().await;
    let (one, two) = pair(shop.serve(PROBED)).await;
    shop.fate(Fate::Lost);
    for n in 0..8 {
        one.send(&Request::order(&format!("k-{n}"))).await;
    }
    for n in 0..8 {
        two.until(&Request::order(&format!("k-{n}")), |answer| answer.status == 201).await;
        assert_eq!(shop.questions(&format!("k-{n}")).len(), 1, "k-{n}");
    }
}
