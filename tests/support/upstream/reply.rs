//! What the upstream does with one request, down to the byte.

use std::time::Duration;
use tokio::sync::watch;

/// Closed until the test opens it; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Gate {
    /// A closed one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody pass, from now on.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when it is open.
    pub async fn passed(&self) {
        self.0.subscribe().wait_for(|open| *open).await.expect("the gate stands");
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    Gate(Gate),
    Pause(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    KeepAlive,
    Close,
    Reset,
}

#[derive(Clone, Debug)]
enum Body {
    None,
    /// Announced length, and what is sent of it.
    Sized(usize, Vec<u8>),
    /// Steps whose bytes become chunks; true: with the last chunk.
    Chunked(Vec<Step>, bool),
    /// Until the connection ends.
    Bare(Vec<u8>),
}

/// An answer to come. Steps before it, its head, its body, and what becomes of the connection.
#[derive(Clone, Debug)]
pub struct Reply {
    before: Vec<Step>,
    head: Option<(u16, Vec<u8>)>,
    body: Body,
    end: End,
}

impl Reply {
    fn new(head: Option<(u16, Vec<u8>)>, body: Body, end: End) -> Self {
        Self { before: Vec::new(), head, body, end }
    }

    /// A whole answer with a content length.
    pub fn with(status: u16, media_type: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref().to_vec();
        Self::new(Some((status, Vec::new())), Body::Sized(body.len(), body), End::KeepAlive)
            .header("Content-Type", media_type)
    }

    /// A whole JSON answer.
    pub fn json(status: u16, body: &str) -> Self {
        Self::with(status, "application/json", body)
    }

    /// A head and nothing else, as a 204 is.
    pub fn empty(status: u16) -> Self {
        Self::new(Some((status, Vec::new())), Body::None, End::KeepAlive)
    }

    /// A chunked answer.
    pub fn chunked(status: u16, media_type: &str, chunks: &[&[u8]]) -> Self {
        let steps = chunks.iter().map(|chunk| Step::Bytes(chunk.to_vec())).collect();
        Self::new(Some((status, Vec::new())), Body::Chunked(steps, true), End::KeepAlive)
            .header("Content-Type", media_type)
    }

    /// A body without framing, which ends with the connection.
    pub fn until_close(status: u16, media_type: &str, body: &str) -> Self {
        Self::new(Some((status, Vec::new())), Body::Bare(body.into()), End::Close).header("Content-Type", media_type)
    }

    /// Exactly these bytes.
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::new(None, Body::Bare(bytes.as_ref().to_vec()), End::KeepAlive)
    }

    /// Reads the request and then answers nothing, however long one waits.
    pub fn silence() -> Self {
        Self::raw("").gated(&Gate::new())
    }

    /// Reads the request, then resets the connection.
    pub fn reset() -> Self {
        Self::raw("").then_reset()
    }

    /// Reads the request, then closes the connection.
    pub fn hang_up() -> Self {
        Self::raw("").then_close()
    }

    /// One more header line.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let (_, lines) = self.head.as_mut().expect("a head");
        lines.extend(name.bytes());
        lines.extend(b": ");
        lines.extend(value.as_ref());
        lines.extend(b"\r\n");
        self
    }

    /// Waits for the gate before the head.
    pub fn gated(mut self, gate: &Gate) -> Self {
        self.before.push(Step::Gate(gate.clone()));
        self
    }

    /// Waits so long before the head.
    pub fn after(mut self, pause: Duration) -> Self {
        self.before.push(Step::Pause(pause));
        self
    }

    /// Bytes before the head: an interim answer, say.
    pub fn preceded_by(mut self, bytes: &str) -> Self {
        self.before.push(Step::Bytes(bytes.into()));
        self
    }

    /// A chunked body goes on behind the gate.
    pub fn then_gated(mut self, gate: &Gate, chunks: &[&[u8]]) -> Self {
        let Body::Chunked(steps, _) = &mut self.body else { panic!("a chunked reply") };
        steps.push(Step::Gate(gate.clone()));
        steps.extend(chunks.iter().map(|chunk| Step::Bytes(chunk.to_vec())));
        self
    }

    /// A chunked body whose chunks come so far apart.
    pub fn slowly(mut self, pause: Duration) -> Self {
        let Body::Chunked(steps, _) = &mut self.body else { panic!("a chunked reply") };
        *steps = steps.drain(..).flat_map(|step| [step, Step::Pause(pause)]).collect();
        self
    }

    /// Ends the connection before the body is complete.
    pub fn truncated(mut self) -> Self {
        match &mut self.body {
            Body::Sized(announced, _) => *announced += 100,
            Body::Chunked(_, finished) => *finished = false,
            Body::None | Body::Bare(_) => panic!("a body with framing"),
        }
        self.then_close()
    }

    /// FIN afterwards, unannounced.
    pub fn then_close(mut self) -> Self {
        self.end = End::Close;
        self
    }

    /// RST afterwards.
    pub fn then_reset(mut self) -> Self {
        self.end = End::Reset;
        self
    }

    pub(crate) fn render(self, head_only: bool) -> (Vec<Step>, End) {
        let mut steps = self.before;
        if let Some((status, lines)) = self.head {
            let mut head = format!("HTTP/1.1 {status} Scripted\r\n").into_bytes();
            head.extend(lines);
            match &self.body {
                Body::Sized(announced, _) => head.extend(format!("Content-Length: {announced}\r\n").bytes()),
                Body::Chunked(..) => head.extend(b"Transfer-Encoding: chunked\r\n"),
                Body::None if status != 204 && status != 304 => head.extend(b"Content-Length: 0\r\n"),
                Body::None | Body::Bare(_) => {}
            }
            head.extend(b"\r\n");
            steps.push(Step::Bytes(head));
            if head_only {
                return (steps, self.end);
            }
        }
        match self.body {
            Body::None => {}
            Body::Sized(_, bytes) | Body::Bare(bytes) => steps.push(Step::Bytes(bytes)),
            Body::Chunked(chunks, finished) => {
                steps.extend(chunks.into_iter().map(|step| match step {
                    Step::Bytes(chunk) => {
                        let mut framed = format!("{:x}\r\n", chunk.len()).into_bytes();
                        framed.extend(chunk);
                        framed.extend(b"\r\n");
                        Step::Bytes(framed)
                    }
                    other => other,
                }));
                if finished {
                    steps.push(Step::Bytes(b"0\r\n\r\n".to_vec()));
                }
            }
        }
        (steps, self.end)
    }
}
