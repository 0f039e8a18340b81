//! HTTP/1.1 at byte level, for both ends: nothing is normalised, nothing is repaired.

use rustix::net::sockopt::set_socket_linger;
use std::io::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Header lines as they came: order, repetition, spelling and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, Vec<u8>)>);

impl Headers {
    /// The only line of this name, as text; a panic if there are several.
    pub fn one(&self, name: &str) -> Option<String> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} came {} times", all.len());
        all.into_iter().next()
    }

    /// All lines of this name in order, as text.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.bytes(name).into_iter().map(|v| String::from_utf8_lossy(&v).into_owned()).collect()
    }

    /// All lines of this name in order, as bytes.
    pub fn bytes(&self, name: &str) -> Vec<Vec<u8>> {
        self.0.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.clone()).collect()
    }

    /// The names that start with this, in lower case.
    pub fn names_starting(&self, prefix: &str) -> Vec<String> {
        self.0.iter().map(|(n, _)| n.to_ascii_lowercase()).filter(|n| n.starts_with(prefix)).collect()
    }
}

/// A first line and what follows it up to the empty line.
#[derive(Clone, Debug)]
pub struct Head {
    /// `POST /orders HTTP/1.1` or `HTTP/1.1 201 Created`.
    pub first_line: String,
    /// The lines below.
    pub headers: Headers,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// After so many bytes.
    Length(usize),
    /// With a chunk of no bytes.
    Chunked,
    /// With the connection.
    UntilClose,
}

impl Framing {
    /// What the headers of a request say.
    pub fn of_request(headers: &Headers) -> Self {
        Self::of(headers).unwrap_or(Self::None)
    }

    /// What the headers of an answer say.
    pub fn of_answer(status: u16, headers: &Headers) -> Self {
        if status < 200 || status == 204 || status == 304 {
            return Self::None;
        }
        Self::of(headers).unwrap_or(Self::UntilClose)
    }

    fn of(headers: &Headers) -> Option<Self> {
        if headers.one("transfer-encoding").is_some_and(|te| te.eq_ignore_ascii_case("chunked")) {
            return Some(Self::Chunked);
        }
        headers.one("content-length").map(|n| Self::Length(n.parse().expect("a content-length that is a number")))
    }
}

/// A body, and whether its framing was satisfied.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// What arrived.
    pub bytes: Vec<u8>,
    /// False: the connection ended first.
    pub whole: bool,
    /// Lines after the last chunk.
    pub trailers: Headers,
}

/// A socket and what was read from it ahead of time.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    /// Takes the socket over; small writes leave at once.
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("set TCP_NODELAY");
        Self { stream, buffer: Vec::new() }
    }

    /// Reads more; 0 is the end.
    pub async fn fill(&mut self) -> Result<usize> {
        self.stream.read_buf(&mut self.buffer).await
    }

    /// True once a byte of the next message is there, false at the end.
    pub async fn begun(&mut self) -> Result<bool> {
        Ok(!self.buffer.is_empty() || self.fill().await? > 0)
    }

    /// The next head; `None` if the connection ended before its first byte.
    pub async fn head(&mut self) -> Result<Option<Head>> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return parse_head(&head[..end]).map(Some);
            }
            if self.fill().await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(cut("a head")) };
            }
        }
    }

    /// The whole body, or what there was of it.
    pub async fn body(&mut self, framing: Framing) -> Body {
        let mut body = Body::default();
        body.whole = match framing {
            Framing::None => true,
            Framing::Length(length) => {
                while self.buffer.len() < length && matches!(self.fill().await, Ok(1..)) {}
                let there = length.min(self.buffer.len());
                body.bytes = self.buffer.drain(..there).collect();
                there == length
            }
            Framing::UntilClose => {
                let end = loop {
                    match self.fill().await {
                        Ok(0) => break true,
                        Ok(_) => {}
                        Err(_) => break false,
                    }
                };
                body.bytes = std::mem::take(&mut self.buffer);
                end
            }
            Framing::Chunked => loop {
                match self.chunk().await {
                    Ok(Some(chunk)) => body.bytes.extend(chunk),
                    Ok(None) => match self.trailers().await {
                        Ok(trailers) => {
                            body.trailers = trailers;
                            break true;
                        }
                        Err(_) => break false,
                    },
                    Err(_) => break false,
                }
            },
        };
        body
    }

    /// The next chunk; `None` is the last one, whose trailers are still to be read.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let line = self.line().await?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| Error::new(ErrorKind::InvalidData, line.clone()))?;
        if size == 0 {
            return Ok(None);
        }
        while self.buffer.len() < size + 2 {
            if self.fill().await? == 0 {
                return Err(cut("a chunk"));
            }
        }
        let chunk = self.buffer.drain(..size).collect();
        self.buffer.drain(..2);
        Ok(Some(chunk))
    }

    async fn trailers(&mut self) -> Result<Headers> {
        let mut trailers = Headers::default();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(trailers);
            }
            trailers.0.push(header(line.as_bytes())?);
        }
    }

    async fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.fill().await? == 0 {
                return Err(cut("a line"));
            }
        }
    }

    /// Writes all of it, and reads meanwhile: the other end may answer before it has read everything.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let (mut reading, mut writing) = self.stream.split();
        let mut open = true;
        while !bytes.is_empty() {
            tokio::select! {
                biased;
                written = writing.write(bytes) => bytes = &bytes[written?..],
                read = reading.read_buf(&mut self.buffer), if open => open = read? > 0,
            }
        }
        Ok(())
    }

    /// Resolves when the other end closes or resets; what it sends until then is kept.
    pub async fn gone(&mut self) {
        while matches!(self.fill().await, Ok(1..)) {}
    }

    /// Says that nothing more will be sent, and goes on reading.
    pub async fn half_close(&mut self) -> Result<()> {
        self.stream.shutdown().await
    }

    /// Closes with a reset (RST) instead of a farewell (FIN).
    pub fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("set SO_LINGER");
    }

    /// What was read and not yet taken.
    pub fn ahead(&self) -> &[u8] {
        &self.buffer
    }
}

fn parse_head(head: &[u8]) -> Result<Head> {
    let mut lines = head.split(|b| *b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    let first_line = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    Ok(Head { first_line, headers: Headers(lines.map(header).collect::<Result<_>>()?) })
}

fn header(line: &[u8]) -> Result<(String, Vec<u8>)> {
    let colon = line.iter().position(|b| *b == b':').ok_or_else(|| Error::new(ErrorKind::InvalidData, "no colon"))?;
    let name = String::from_utf8_lossy(&line[..colon]).into_owned();
    Ok((name, line[colon + 1..].trim_ascii().to_vec()))
}

fn cut(what: &str) -> Error {
    Error::new(ErrorKind::UnexpectedEof, format!("the connection ended within {what}"))
}
