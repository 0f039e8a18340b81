//! What really arrived.

use crate::patience::patiently;
use crate::wire::Headers;
use std::sync::Arc;
use tokio::sync::watch;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Counts all requests, from 1.
    pub number: usize,
    /// Counts connections, from 1.
    pub connection: usize,
    /// `POST`.
    pub method: String,
    /// As sent.
    pub target: String,
    /// As sent.
    pub headers: Headers,
    /// Without its framing.
    pub body: Vec<u8>,
    /// False: the connection ended within the body.
    pub whole: bool,
    /// Lines after the last chunk.
    pub trailers: Headers,
}

impl Received {
    /// The key, without quotes.
    pub fn key(&self) -> Option<String> {
        self.headers.one("idempotency-key").map(|key| key.trim_matches('"').to_owned())
    }
}

#[derive(Debug, Default)]
struct Book {
    received: Vec<Received>,
    connections: usize,
    hang_ups: usize,
    farewells: usize,
}

/// Shared by all connections; each change wakes who waits for it.
#[derive(Clone, Debug)]
pub struct Ledger {
    book: Arc<watch::Sender<Book>>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { book: Arc::new(watch::Sender::new(Book::default())) }
    }
}

impl Ledger {
    pub(crate) fn connected(&self) -> usize {
        self.book.send_modify(|book| book.connections += 1);
        self.book.borrow().connections
    }

    pub(crate) fn enter(&self, mut received: Received) -> Received {
        self.book.send_modify(|book| {
            received.number = book.received.len() + 1;
            book.received.push(received.clone());
        });
        received
    }

    pub(crate) fn hung_up(&self) {
        self.book.send_modify(|book| book.hang_ups += 1);
    }

    pub(crate) fn parted(&self) {
        self.book.send_modify(|book| book.farewells += 1);
    }

    /// Everything so far.
    pub fn all(&self) -> Vec<Received> {
        self.book.borrow().received.clone()
    }

    /// How many requests so far.
    pub fn count(&self) -> usize {
        self.book.borrow().received.len()
    }

    /// How many connections so far.
    pub fn connections(&self) -> usize {
        self.book.borrow().connections
    }

    /// How many whole requests with this key.
    pub fn effects(&self, key: &str) -> usize {
        self.book.borrow().received.iter().filter(|r| r.whole && r.key().as_deref() == Some(key)).count()
    }

    /// The newest request.
    pub fn last(&self) -> Received {
        self.book.borrow().received.last().expect("a request").clone()
    }

    /// Waits until so many requests have arrived in all; gives the last of them.
    pub async fn arrived(&self, count: usize) -> Received {
        let mut book = self.book.subscribe();
        let what = format!("{count} requests at the upstream");
        let book = patiently(&what, book.wait_for(|book| book.received.len() >= count)).await.expect("the ledger");
        book.received[count - 1].clone()
    }

    /// Waits until the proxy has given up waiting for an answer on so many connections.
    pub async fn abandoned(&self, count: usize) {
        let mut book = self.book.subscribe();
        let what = format!("{count} abandoned requests");
        patiently(&what, book.wait_for(|book| book.hang_ups >= count)).await.expect("the ledger");
    }

    /// How many requests were abandoned.
    pub fn hang_ups(&self) -> usize {
        self.book.borrow().hang_ups
    }

    /// Waits until the proxy has taken note of so many connections that this side closed.
    pub async fn parted_from(&self, count: usize) {
        let mut book = self.book.subscribe();
        let what = format!("{count} closed connections seen by the proxy");
        patiently(&what, book.wait_for(|book| book.farewells >= count)).await.expect("the ledger");
    }
}
