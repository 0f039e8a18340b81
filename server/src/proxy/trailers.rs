//! Fields after a body (RFC 9110, section 6.5): passed on where the other side wants them, and never as ours.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HeaderMap, TE};
use http_body::{Body, Frame, SizeHint};

use crate::names;

/// Whether the client said `TE: trailers`. Without it an answer's trailers are dropped on its way.
pub(super) fn are_wanted(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(TE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// A body whose trailers pass or do not.
pub(super) struct Trailed<B> {
    body: Pin<Box<B>>,
    pass: bool,
}

impl<B> Trailed<B> {
    pub(super) fn new(body: B, pass: bool) -> Self {
        Self { body: Box::pin(body), pass }
    }
}

impl<B: Body<Data = Bytes>> Body for Trailed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        loop {
            let frame = match self.body.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => return other,
            };
            match frame.into_trailers() {
                Err(data) => return Poll::Ready(Some(Ok(data))),
                Ok(mut trailers) => {
                    names::strip_ours(&mut trailers);
                    if self.pass && !trailers.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // With a length HTTP/1.1 has no place for trailers.
        if self.pass { SizeHint::new() } else { self.body.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};

    #[tokio::test]
    async fn trailers_pass_where_they_are_wanted_and_never_as_ours() {
        for (pass, names) in [(true, vec!["x-sum"]), (false, vec![])] {
            let trailers = HeaderMap::from_iter([
                ("x-sum".parse().unwrap(), "1".parse().unwrap()),
                ("samekey-state".parse().unwrap(), "completed".parse().unwrap()),
            ]);
            let body = Full::new(Bytes::from("a")).with_trailers(std::future::ready(Some(Ok(trailers))));
            let read = Trailed::new(body, pass).collect().await.unwrap();
            let left = read.trailers().map(|map| map.keys().map(http::HeaderName::as_str).collect::<Vec<_>>());
            assert_eq!(left.unwrap_or_default(), names);
            assert_eq!(read.to_bytes(), "a");
        }
    }

    #[test]
    fn te_is_a_list() {
        for (line, wanted) in [("trailers", true), ("gzip;q=0.5, Trailers", true), ("gzip", false), ("", false)] {
            assert_eq!(are_wanted(&HeaderMap::from_iter([(TE, line.parse().unwrap())])), wanted, "{line}");
        }
    }
}
