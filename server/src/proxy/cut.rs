//! An answer that breaks off is seen to break off.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// A body whose failure comes one turn late.
///
/// hyper ends a connection at once when a body fails, and drops what it has not flushed: if head and
/// failure come in one turn, the client sees no answer at all. With a turn in between it sees the
/// head, what there is of the body, and the break.
struct Cut {
    inner: Body,
    failed: Option<axum::Error>,
}

/// The answer with its failure, if any, one turn late.
pub(crate) fn visibly(answer: Response) -> Response {
    answer.map(|inner| Body::new(Cut { inner, failed: None }))
}

impl http_body::Body for Cut {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(failed) = self.failed.take() {
            return Poll::Ready(Some(Err(failed)));
        }
        match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Err(failed)) => {
                self.failed = Some(failed);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::task::Waker;

    use http_body::Body as _;
    use http_body_util::{BodyExt as _, Full, channel::Channel};

    use super::*;

    #[tokio::test]
    async fn a_failure_waits_a_turn_and_everything_before_it_does_not() {
        let (mut sender, body) = Channel::<Bytes, io::Error>::new(2);
        sender.send_data(Bytes::from_static(b"part")).await.unwrap();
        sender.abort(io::Error::other("gone"));
        let mut body = visibly(Response::new(Body::new(body))).into_body();
        let mut turn = || Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(turn(), Poll::Ready(Some(Ok(_)))));
        assert!(turn().is_pending());
        assert!(matches!(turn(), Poll::Ready(Some(Err(_)))));
    }

    #[tokio::test]
    async fn a_whole_answer_keeps_its_length_and_its_end() {
        let body = visibly(Response::new(Body::new(Full::from("whole")))).into_body();
        assert_eq!(body.size_hint().exact(), Some(5));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "whole");
        assert!(visibly(Response::new(Body::empty())).into_body().is_end_stream());
    }
}
