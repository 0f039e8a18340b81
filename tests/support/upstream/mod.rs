//! A scripted upstream on real sockets, with a ledger of what it was really asked to do.

mod connection;
mod ledger;
mod reply;

pub use ledger::{Ledger, Received};
pub use reply::{Gate, Reply};

use connection::Manners;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

type Script = Box<dyn Fn(&Received) -> Reply + Send + Sync>;

pub(crate) struct Scripts {
    queued: Mutex<VecDeque<Reply>>,
    script: Mutex<Script>,
}

impl Scripts {
    fn reply(&self, received: &Received) -> Reply {
        let queued = self.queued.lock().expect("queue").pop_front();
        queued.unwrap_or_else(|| self.script.lock().expect("script")(received))
    }
}

/// The service behind the proxy.
pub struct Upstream {
    addr: SocketAddr,
    scripts: Arc<Scripts>,
    ledger: Ledger,
    manners: Arc<Mutex<Manners>>,
    listening: Mutex<Listening>,
}

enum Listening {
    /// Holds the port without listening on it: connections are refused.
    Refusing(TcpSocket),
    Accepting(JoinHandle<()>),
    Moving,
}

impl Upstream {
    /// Listens and creates something for every request: `201`, `{"id":"o-N"}`, with N counting up.
    pub async fn start() -> Self {
        let upstream = Self::unreachable();
        upstream.accept();
        upstream
    }

    /// Has a port and refuses connections, until [`Upstream::accept`].
    pub fn unreachable() -> Self {
        let socket = bind("127.0.0.1:0".parse().expect("an address"));
        let created = |received: &Received| {
            let id = format!("o-{}", received.number);
            Reply::json(201, &format!(r#"{{"id":"{id}"}}"#)).header("Location", format!("/orders/{id}"))
        };
        Self {
            addr: socket.local_addr().expect("its address"),
            scripts: Arc::new(Scripts { queued: Mutex::default(), script: Mutex::new(Box::new(created)) }),
            ledger: Ledger::default(),
            manners: Arc::default(),
            listening: Mutex::new(Listening::Refusing(socket)),
        }
    }

    /// Starts to listen.
    pub fn accept(&self) {
        let mut listening = self.listening.lock().expect("listening");
        match std::mem::replace(&mut *listening, Listening::Moving) {
            Listening::Refusing(socket) => {
                let listener = socket.listen(4096).expect("listen");
                *listening = Listening::Accepting(tokio::spawn(self.serve(listener)));
            }
            other => *listening = other,
        }
    }

    /// Stops to listen; connections that are open stay.
    pub async fn refuse(&self) {
        let was = std::mem::replace(&mut *self.listening.lock().expect("listening"), Listening::Moving);
        if let Listening::Accepting(task) = was {
            task.abort();
            let _ = task.await;
        }
        *self.listening.lock().expect("listening") = Listening::Refusing(bind(self.addr));
    }

    fn serve(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + 'static {
        let (scripts, ledger, manners) = (self.scripts.clone(), self.ledger.clone(), self.manners.clone());
        async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = ledger.connected();
                let manners = manners.lock().expect("manners").clone();
                let (scripts, ledger) = (scripts.clone(), ledger.clone());
                tokio::spawn(async move { connection::serve(stream, connection, manners, scripts, ledger).await });
            }
        }
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What `--upstream` gets.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Answers the next request that no earlier reply is queued for.
    pub fn next(&self, reply: Reply) -> &Self {
        self.scripts.queued.lock().expect("queue").push_back(reply);
        self
    }

    /// Answers every request for which no reply is queued.
    pub fn script(&self, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> &Self {
        *self.scripts.script.lock().expect("script") = Box::new(script);
        self
    }

    /// From the next connection on, the second request on a connection meets a reset instead of a reader.
    pub fn reset_reused(&self) {
        self.manners.lock().expect("manners").reset_reused = true;
    }

    /// From the next connection on, a request on a connection that was idle for so long meets a reset.
    pub fn reset_after_idle(&self, idle: Duration) {
        self.manners.lock().expect("manners").reset_after_idle = Some(idle);
    }

    /// From the next connection on, a connection is closed as soon as it is accepted, or reset.
    pub fn close_accepted(&self, reset: bool) {
        self.manners.lock().expect("manners").close_accepted = Some(reset);
    }

    /// Connections behave again, from the next one on.
    pub fn behave(&self) {
        *self.manners.lock().expect("manners") = Manners::default();
    }

    /// What it was asked.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How many whole requests carried this key: each would have been an effect.
    pub fn effects(&self, key: &str) -> usize {
        self.ledger.effects(key)
    }
}

fn bind(addr: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("SO_REUSEADDR");
    socket.bind(addr).unwrap_or_else(|error| panic!("bind {addr}: {error}"));
    socket
}
