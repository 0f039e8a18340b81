//! The handler's answer, held until it is complete, grows past `max_response`, turns out to be an event stream,
//! or `hold` after its head, whichever is first.

use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use samekey_core::Policy;
use tokio::time::{Instant, timeout_at};

use super::Failure;
use crate::claim::CutShort;

/// Frames that wait for a slow client before the handler's stream is paused.
const STREAM_BUFFER_FRAMES: usize = 16;

/// What became of the handler's answer.
pub(crate) enum Captured {
    /// All of it is here.
    Whole(Parts, Bytes, Option<HeaderMap>),
    /// It is not stored: the record completes without a body, then the answer streams.
    Streamed(Parts, Body),
    /// It broke off.
    Broken(String),
    /// There is none.
    Failed(Failure),
    /// The handler gave up on an effect.
    CutShort(CutShort),
}

impl Captured {
    /// The status, if there was an answer.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Whole(parts, ..) | Self::Streamed(parts, _) => Some(parts.status),
            Self::Broken(_) | Self::Failed(_) | Self::CutShort(_) => None,
        }
    }
}

/// The rest of a streamed answer, to be driven by the handler's own task.
pub(crate) struct Pump {
    rest: Body,
    sender: Sender<Bytes, axum::Error>,
}

/// Reads the answer as far as it may be held.
pub(crate) async fn capture(response: Response, policy: &Policy) -> (Captured, Option<Pump>) {
    let (mut parts, mut body) = response.into_parts();
    if let Some(failure) = parts.extensions.remove::<Failure>() {
        return (Captured::Failed(failure), None);
    }
    if let Some(how) = parts.extensions.remove::<CutShort>() {
        return (Captured::CutShort(how), None);
    }
    let held_until = Instant::now() + policy.hold;
    let mut held = BytesMut::new();
    let mut trailers = None;
    let event_stream = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes().get(..17).is_some_and(|essence| essence.eq_ignore_ascii_case(b"text/event-stream"))
    });
    let mut streams = event_stream;
    while !streams {
        match timeout_at(held_until, body.frame()).await {
            Err(_) => streams = true,
            Ok(None) => return (Captured::Whole(parts, held.freeze(), trailers), None),
            Ok(Some(Err(error))) => return (Captured::Broken(error.to_string()), None),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    held.extend_from_slice(&data);
                    streams = held.len() > policy.max_response_bytes;
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    }
    let (mut sender, channel) = Channel::new(STREAM_BUFFER_FRAMES);
    if !held.is_empty() {
        // The buffer is empty, so the first frame always fits.
        let _ = sender.try_send(Frame::data(held.freeze()));
    }
    (Captured::Streamed(parts, Body::new(channel)), Some(Pump { rest: body, sender }))
}

impl Pump {
    /// Passes the rest on. A client that hangs up does not end the handler's stream: it is read on to its end,
    /// but not past `drop_at`.
    pub(crate) async fn run(mut self, drop_at: Instant) {
        loop {
            match self.rest.frame().await {
                None => return,
                Some(Err(error)) => return self.sender.abort(error),
                Some(Ok(frame)) => {
                    if self.sender.send(frame).await.is_err() {
                        break;
                    }
                }
            }
        }
        drop(self.sender);
        let drained = async { while let Some(Ok(_)) = self.rest.frame().await {} };
        let _ = timeout_at(drop_at, drained).await;
    }
}
