//! A client on a bare socket: it can stop, hang up or reset at any byte.

use crate::answer::Answer;
use crate::patience::patiently;
use crate::request::Request;
use crate::wire::{Framing, Head, Wire};
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    wire: Wire,
}

/// Sends one request on a connection of its own; nothing if the connection fails.
pub async fn try_send(addr: SocketAddr, request: &Request) -> Option<Answer> {
    let mut connection = Connection::try_open(addr).await.ok()?;
    connection.request(request).await;
    connection.try_answer().await.ok()
}

/// The head of an answer whose body is read piece by piece.
#[derive(Debug)]
pub struct Opened {
    /// The status code.
    pub status: u16,
    /// Status line and headers.
    pub head: Head,
    /// How the body will end.
    pub framing: Framing,
}

impl Connection {
    /// Connects.
    pub async fn open(addr: SocketAddr) -> Self {
        Self { wire: Wire::new(patiently("connect", TcpStream::connect(addr)).await.expect("connect")) }
    }

    /// Connects, or says why not.
    pub async fn try_open(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self { wire: Wire::new(TcpStream::connect(addr).await?) })
    }

    /// Sends bytes as they are; an answer that ends the connection early is no error.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = patiently("send", self.wire.write(bytes)).await;
    }

    /// Sends a whole request.
    pub async fn request(&mut self, request: &Request) {
        self.send(&request.bytes()).await;
    }

    /// Sends and reads the answer.
    pub async fn exchange(&mut self, request: &Request) -> Answer {
        self.request(request).await;
        self.answer().await
    }

    /// The next final answer.
    pub async fn answer(&mut self) -> Answer {
        self.try_answer().await.expect("an answer")
    }

    /// The next final answer, or how the connection ended.
    pub async fn try_answer(&mut self) -> io::Result<Answer> {
        let opened = self.try_opened().await?;
        let body = patiently("the body of an answer", self.wire.body(opened.framing)).await;
        Ok(Answer::new(opened.status, opened.head, body))
    }

    /// The next final head; its body stays unread.
    pub async fn opened(&mut self) -> Opened {
        self.try_opened().await.expect("the head of an answer")
    }

    async fn try_opened(&mut self) -> io::Result<Opened> {
        loop {
            let head = patiently("the head of an answer", self.wire.head()).await?;
            let head = head.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer"))?;
            let status = head.first_line.split(' ').nth(1).and_then(|s| s.parse().ok());
            let status: u16 = status.ok_or_else(|| io::Error::other(head.first_line.clone()))?;
            if status >= 200 {
                return Ok(Opened { status, framing: Framing::of_answer(status, &head.headers), head });
            }
        }
    }

    /// The next head, interim or final.
    pub async fn any_head(&mut self) -> Head {
        patiently("a head", self.wire.head()).await.expect("a head").expect("a head before the end")
    }

    /// So many bytes, whatever they are.
    pub async fn bytes(&mut self, count: usize) -> Vec<u8> {
        patiently("bytes", self.wire.body(Framing::Length(count))).await.bytes
    }

    /// The next chunk of an opened answer; `None` is the proper end.
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        patiently("a chunk", self.wire.chunk()).await
    }

    /// Reads until the other end closes.
    pub async fn closed(&mut self) {
        patiently("the other end closing", self.wire.gone()).await;
    }

    /// FIN, still reading.
    pub async fn half_close(&mut self) {
        self.wire.half_close().await.expect("shut down the sending half");
    }

    /// RST.
    pub fn reset(self) {
        self.wire.reset();
    }
}

/// Sends one request on a connection of its own.
pub async fn send(addr: SocketAddr, request: &Request) -> Answer {
    Connection::open(addr).await.exchange(request).await
}
