//! A client's socket as hyper sees it: HTTP/1.1 arrives guarded, and a client that does not read is given up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::guard::Guard;

/// How long a client may take nothing of an answer before it is given up: an answer in memory is not held for
/// somebody who is gone. As long as a head may take.
const WRITE_STALL: Duration = Duration::from_secs(30);

/// How HTTP/2 begins, with prior knowledge (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
}

/// The socket and what was read of it ahead of time.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    ahead: Vec<u8>,
    guard: Option<Guard>,
    left_http: Leaves,
    poisoned: bool,
    stalled: Option<Pin<Box<Sleep>>>,
}

/// Set when the connection has left HTTP for a tunnel.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaves(Arc<AtomicBool>);

impl Leaves {
    pub(super) fn http(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Socket {
    /// Reads just enough to know what the client speaks.
    pub(super) async fn greet(mut stream: TcpStream) -> io::Result<(Spoken, Self)> {
        let mut first = [0; PREFACE.len()];
        let mut read = 0;
        let spoken = loop {
            let more = stream.read(&mut first[read..]).await?;
            read += more;
            match first[..read] == PREFACE[..read] {
                true if read == PREFACE.len() => break Spoken::Http2,
                true if more > 0 => {}
                _ => break Spoken::Http1,
            }
        };
        let mut socket = Self {
            stream,
            ahead: first[..read].to_vec(),
            guard: (spoken == Spoken::Http1).then(Guard::default),
            left_http: Leaves::default(),
            poisoned: false,
            stalled: None,
        };
        let mut ahead = std::mem::take(&mut socket.ahead);
        let kept = socket.inspect(&mut ahead);
        ahead.truncate(kept);
        ahead.append(&mut socket.ahead);
        socket.ahead = ahead;
        Ok((spoken, socket))
    }

    pub(super) fn leaves(&self) -> Leaves {
        self.left_http.clone()
    }

    /// How many of these bytes hyper may see. The first one that has two meanings becomes a NUL, and the last.
    fn inspect(&mut self, bytes: &mut [u8]) -> usize {
        let Some(guard) = &mut self.guard else { return bytes.len() };
        if guard.idle() && self.left_http.0.load(Ordering::Acquire) {
            self.guard = None;
            return bytes.len();
        }
        match guard.follow(bytes) {
            Ok(()) => bytes.len(),
            Err(fine) => {
                tracing::debug!(event = "request_refused", "a request whose framing has two meanings");
                self.poisoned = true;
                bytes[fine] = 0;
                // hyper reads a head only once it looks complete.
                self.ahead = b"\r\n\r\n".to_vec();
                fine + 1
            }
        }
    }

    /// Gives up after a while without progress.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_STALL)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // With the first bytes goes what is there already: for a read of few bytes hyper would double its buffer.
        let count = self.ahead.len().min(buf.remaining());
        buf.put_slice(&self.ahead[..count]);
        self.ahead = self.ahead.split_off(count);
        if self.poisoned || !self.ahead.is_empty() || buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending if count > 0 => Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) => {
                let kept = self.inspect(&mut buf.filled_mut()[before..]);
                buf.set_filled(before + kept);
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
