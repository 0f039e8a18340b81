//! The body of an answer on its way out: counted until its end, and broken off only after what came before is out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The requests of one connection that are being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(Arc<()>);

/// One request that is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Answering(#[expect(dead_code, reason = "counted by its being there")] Arc<()>);

impl Requests {
    pub(crate) fn begin(&self) -> Answering {
        Answering(Arc::clone(&self.0))
    }

    /// Nothing is being answered. The service of the connection holds one count of its own.
    pub(crate) fn none(&self) -> bool {
        Arc::strong_count(&self.0) <= 2
    }
}

/// An answer's body. hyper drops what it has not flushed when a body fails; without the pause before the error the
/// client would not even see the head of an answer that broke off.
#[derive(Debug)]
pub(crate) struct Outgoing {
    body: Body,
    unflushed: bool,
    error: Option<axum::Error>,
    _answering: Answering,
}

impl Outgoing {
    pub(crate) fn new(body: Body, answering: Answering) -> Self {
        Self { body, unflushed: true, error: None, _answering: answering }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => {
                self.unflushed = false;
                Poll::Pending
            }
            Poll::Ready(Some(Err(error))) if self.unflushed => {
                self.unflushed = false;
                self.error = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(frame) => {
                self.unflushed = true;
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.error.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn an_error_waits_until_what_came_before_was_flushed() {
        let requests = Requests::default();
        let frames = [Ok("head"), Err(std::io::Error::other("broke"))];
        let body = Body::from_stream(futures_util::stream::iter(frames));
        let _service = requests.clone();
        let mut outgoing = Outgoing::new(body, requests.begin());
        assert!(!requests.none());
        assert!(outgoing.frame().now_or_never().unwrap().unwrap().is_ok());
        assert!(outgoing.frame().now_or_never().is_none(), "a turn for the flush");
        assert!(outgoing.frame().now_or_never().unwrap().unwrap().is_err());
        drop(outgoing);
        assert!(requests.none());
    }
}
