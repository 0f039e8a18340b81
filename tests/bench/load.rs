//! The load: one small POST after the other on each of some kept connections, all on one thread.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use support::keys;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Turn;

const BODY_BYTES: usize = 300;

/// What the requests carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No key.
    Plain,
    /// A new key each.
    New,
    /// All the same key.
    Same,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "new" => Ok(Self::New),
            "same" => Ok(Self::Same),
            _ => Err(format!("{text}: plain, new or same")),
        }
    }
}

/// Keeps all connections busy for a time.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(to: SocketAddr, kind: Kind, connections: usize, span: Duration) -> Result<()> {
    if !to.ip().is_loopback() {
        bail!("load goes to this machine only");
    }
    let same = keys::v7();
    if kind == Kind::Same {
        // The first delivery runs; what is measured comes after it.
        Connection::open(to).await?.exchange(&request(Some(&same))).await?;
    }
    let turn = Arc::new(Turn::begin());
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        let (same, turn) = (same.clone(), Arc::clone(&turn));
        clients.spawn(async move {
            let mut connection = Connection::open(to).await?;
            let (mut took, mut other) = (Vec::new(), 0_usize);
            while !turn.is_over(span) {
                let request = match kind {
                    Kind::Plain => request(None),
                    Kind::New => request(Some(&keys::v7())),
                    Kind::Same => request(Some(&same)),
                };
                let sent = Instant::now();
                let status = connection.exchange(&request).await?;
                took.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
                other += usize::from(status != 201);
            }
            anyhow::Ok((took, other))
        });
    }
    let (mut took, mut other) = (Vec::new(), 0);
    while let Some(client) = clients.join_next().await {
        let (its, others) = client??;
        took.extend(its);
        other += others;
    }
    turn.report(took, other);
    Ok(())
}

fn request(key: Option<&str>) -> Vec<u8> {
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let order = r#"{"sku":"tea","quantity":3,"price":{"amount":12.90,"currency":"EUR"},"note":""#;
    let note = "n".repeat(BODY_BYTES - order.len() - 2);
    format!(
        "POST /orders HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer token-of-ann\r\n\
         Content-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n{key}\r\n{order}{note}\"}}"
    )
    .into_bytes()
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await.with_context(|| format!("no connection to {to}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// The status of the answer, which is read whole.
    async fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (status, whole) = loop {
            self.more().await?;
            if let Some(head) = head(&self.buffer)? {
                break head;
            }
        };
        while self.buffer.len() < whole {
            self.more().await?;
        }
        Ok(status)
    }

    async fn more(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("closed without an answer");
        }
        Ok(())
    }
}

/// Status, and how long head and body are together; `None` while the head is incomplete.
fn head(bytes: &[u8]) -> Result<Option<(u16, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    let length = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .context("an answer without a length")?;
    Ok(Some((status, end + 4 + length.1.trim().parse::<usize>()?)))
}
