//! An actor that a proxy in front names in a header.

use std::net::IpAddr;

use axum::extract::ConnectInfo;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use samekey_core::Actor;

use super::id;
use crate::problem::Problem;

/// Which peers may say who the actor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// 127.0.0.0/8 and ::1.
    Loopback,
    /// These networks and nobody else.
    Networks(Vec<IpNet>),
}

impl Trusted {
    fn contains(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        match self {
            Self::Loopback => peer.is_loopback(),
            Self::Networks(networks) => networks.iter().any(|network| network.contains(&peer)),
        }
    }
}

/// The address that a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

#[derive(Clone, Debug)]
pub(super) struct FromHeader {
    pub(super) name: HeaderName,
    pub(super) trusted: Trusted,
}

impl FromHeader {
    pub(super) fn find(&self, parts: &Parts) -> Result<Option<Actor>, Problem> {
        if !self.trusts(parts) {
            return Ok(None);
        }
        let Some(value) = id::only_line(&parts.headers, &self.name)? else { return Ok(None) };
        // A comma is what becomes of two lines on their way through a proxy (RFC 9110, section 5.3).
        let name = std::str::from_utf8(value.as_bytes().trim_ascii()).ok().filter(|name| !name.contains(','));
        let actor = name.and_then(id::actor);
        actor.map(Some).ok_or_else(|| id::refused("The proxy in front names no single caller. Nothing was run."))
    }

    /// From somebody else the header is a forgery. Its look-alikes are one from anybody: applications behind CGI,
    /// WSGI or Rack cannot tell `X_User` from `X-User`.
    pub(super) fn strip(&self, parts: &mut Parts) {
        if !self.trusts(parts) {
            parts.headers.remove(&self.name);
        }
        for name in look_alikes(&parts.headers, &self.name) {
            parts.headers.remove(name);
        }
    }

    fn trusts(&self, parts: &Parts) -> bool {
        peer(parts).is_some_and(|peer| self.trusted.contains(peer))
    }
}

fn look_alikes(headers: &HeaderMap, name: &HeaderName) -> Vec<HeaderName> {
    let plain = |name: &HeaderName| name.as_str().replace('_', "-");
    let wanted = plain(name);
    headers.keys().filter(|other| *other != name && plain(other) == wanted).cloned().collect()
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    let from_axum = || parts.extensions.get::<ConnectInfo<std::net::SocketAddr>>().map(|info| info.0.ip());
    parts.extensions.get::<Peer>().map(|peer| peer.0).or_else(from_axum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, Request};

    fn source(trusted: Trusted) -> FromHeader {
        FromHeader { name: HeaderName::from_static("x-user"), trusted }
    }

    fn parts(peer: &str, values: &[&[u8]]) -> Parts {
        let mut parts = Request::post("/").body(()).unwrap().into_parts().0;
        for value in values {
            parts.headers.append("x-user", HeaderValue::from_bytes(value).unwrap());
        }
        parts.extensions.insert(Peer(peer.parse().unwrap()));
        parts
    }

    #[test]
    fn one_line_with_one_name_is_an_actor() {
        let source = source(Trusted::Loopback);
        for (values, expected) in [
            (&[&b"ann"[..]][..], Ok(Some("ann"))),
            (&[b"  ann "], Ok(Some("ann"))),
            (&["Zoë".as_bytes()], Ok(Some("Zoë"))),
            (&[], Ok(None)),
            (&[b""], Ok(None)),
            (&[b" "], Ok(None)),
            (&[b"ann", b"ann"], Err(())),
            (&[b"ann", b""], Err(())),
            (&[b"ann, bob"], Err(())),
            (&[b"ann\xff"], Err(())),
            (&[b"an\tn"], Err(())),
            (&[&[b'x'; 10_000]], Err(())),
        ] {
            let found = source.find(&parts("127.0.0.1", values)).map_err(|_| ());
            assert_eq!(found.as_ref().map(|actor| actor.as_ref().map(Actor::as_str)), expected.as_ref().map(|id| *id));
        }
    }

    #[test]
    fn strangers_are_not_believed_and_look_alikes_never() {
        let network = Trusted::Networks(vec!["10.0.0.0/8".parse().unwrap()]);
        for (peer, trusted) in
            [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("127.0.0.1", false), ("11.0.0.1", false)]
        {
            let source = source(network.clone());
            let mut parts = parts(peer, &[b"ann"]);
            parts.headers.insert("x_user", HeaderValue::from_static("root"));
            assert_eq!(source.find(&parts).unwrap().is_some(), trusted, "{peer}");
            source.strip(&mut parts);
            assert_eq!(parts.headers.contains_key("x-user"), trusted, "{peer}");
            assert!(!parts.headers.contains_key("x_user"));
        }
    }
}
