//! `GET` with `Upgrade` (WebSocket and its like): after a `101` the bytes of both sides pass unread.

use axum::body::Body;
use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tunnels that are open. They have no end of their own, so a shutdown gives them one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels {
    open: TaskTracker,
    end: CancellationToken,
}

impl Tunnels {
    /// Waits until both sides of each have said goodbye.
    pub(crate) async fn ended(&self) {
        self.open.close();
        self.open.wait().await;
    }

    /// Closes those that are left; how many there were.
    pub(crate) async fn close(&self) -> usize {
        let left = self.open.len();
        self.end.cancel();
        self.ended().await;
        left
    }
}

/// Held by each direction of a tunnel; 8 KiB is the usual size, and there may be many.
const BUFFER_BYTES: usize = 8 << 10;

/// A client's wish to speak something else.
pub(super) struct Asked {
    client: OnUpgrade,
    protocol: HeaderValue,
}

impl Asked {
    /// Takes the wish off a request. Other methods than `GET` never leave HTTP, and nobody may go on
    /// speaking HTTP inside a tunnel, where commands would pass unseen.
    pub(super) fn take(request: &mut Request<Body>) -> Option<Self> {
        if request.method() != Method::GET || !names_upgrade(request.headers()) {
            return None;
        }
        let protocol = request.headers().get(UPGRADE)?.clone();
        let spelled = protocol.to_str().ok()?.to_ascii_lowercase();
        let http = |name: &str| ["h2", "http/", "tls/"].iter().any(|start| name.trim().starts_with(start));
        if spelled.split(',').any(http) {
            return None;
        }
        Some(Self { client: hyper::upgrade::on(request), protocol })
    }

    /// Says it again to the upstream, on the next hop.
    pub(super) fn announce(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
    }

    /// The upstream agreed: joins both sides, and tells the client.
    pub(super) fn open(self, mut response: Response<Incoming>, tunnels: &Tunnels) -> Response<Body> {
        let upstream = hyper::upgrade::on(&mut response);
        let (client, end) = (self.client, tunnels.end.clone());
        tunnels.open.spawn(async move {
            let joined = async {
                let (client, upstream) = tokio::try_join!(client, upstream)?;
                let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
                tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER_BYTES, BUFFER_BYTES)
                    .await?;
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            };
            match end.run_until_cancelled(joined).await {
                Some(Err(error)) => tracing::debug!(event = "tunnel_error", error = %error),
                Some(Ok(())) => {}
                None => tracing::info!(event = "tunnel_closed", "a tunnel outlived the drain"),
            }
        });
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let protocol = response.headers().get(UPGRADE).cloned().unwrap_or(self.protocol);
        std::mem::swap(answer.headers_mut(), response.headers_mut());
        super::hop::strip_response(answer.headers_mut());
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        answer.headers_mut().insert(UPGRADE, protocol);
        answer
    }
}

fn names_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|list| list.split(',')).any(|name| name.trim().eq_ignore_ascii_case("upgrade"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_leaves_http_and_never_for_http() {
        let asked = |method: &str, protocol: &str| {
            let request = Request::builder().method(method).header(CONNECTION, "keep-alive, Upgrade");
            Asked::take(&mut request.header(UPGRADE, protocol).body(Body::empty()).unwrap()).is_some()
        };
        assert!(asked("GET", "websocket"));
        for (method, protocol) in [("POST", "websocket"), ("GET", "h2c"), ("GET", "x, HTTP/2.0"), ("GET", "TLS/1.0")] {
            assert!(!asked(method, protocol), "{method} {protocol}");
        }
        let plain = Request::get("/").header(UPGRADE, "websocket").body(Body::empty());
        assert!(Asked::take(&mut plain.unwrap()).is_none(), "Connection does not name it");
    }
}
