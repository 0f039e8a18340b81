//! Who asks. Actors are never merged: without a sure one, a keyed request is refused.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::ConnectInfo;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use samekey_core::Actor;

use crate::names;
use crate::problem::Problem;
use crate::store::Store;

/// How the actor of a request is found.
#[derive(Clone)]
pub struct ActorSource {
    kind: Kind,
    explained: Arc<AtomicBool>,
}

/// Finds the actor in a request's head.
type Find = dyn Fn(&Parts) -> Option<Actor> + Send + Sync;

#[derive(Clone)]
enum Kind {
    None,
    Extract(Arc<Find>),
    Credentials,
    Header { name: HeaderName, trusted: Trusted },
}

/// Which peers may say who the actor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// 127.0.0.0/8 and ::1.
    Loopback,
    /// These networks and nobody else.
    Networks(Vec<IpNet>),
}

impl Trusted {
    pub(crate) fn contains(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        match self {
            Self::Loopback => peer.is_loopback(),
            Self::Networks(networks) => networks.iter().any(|network| network.contains(&peer)),
        }
    }
}

impl std::fmt::Debug for ActorSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The address that a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

impl ActorSource {
    fn new(kind: Kind) -> Self {
        Self { kind, explained: Arc::default() }
    }

    pub(crate) fn none() -> Self {
        Self::new(Kind::None)
    }

    /// By a function of the request's head.
    pub fn extract(find: impl Fn(&Parts) -> Option<Actor> + Send + Sync + 'static) -> Self {
        Self::new(Kind::Extract(Arc::new(find)))
    }

    /// By a keyed hash of `Authorization`. Credentials rotate, so a key with a UUID that is known under other
    /// credentials is refused (`actor_changed`) instead of run.
    pub fn credentials() -> Self {
        Self::new(Kind::Credentials)
    }

    /// By a header that a proxy in front sets; believed from trusted peers only.
    pub fn header(name: HeaderName, trusted: Trusted) -> Self {
        Self::new(Kind::Header { name, trusted })
    }

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::None => "none",
            Kind::Extract(_) => "extract",
            Kind::Credentials => "credentials",
            Kind::Header { .. } => "header",
        }
    }

    /// The actor of a request; an error where it cannot be found out now.
    pub(crate) async fn of(&self, parts: &Parts, store: &Store) -> Result<Option<Actor>, Problem> {
        Ok(self.of_now(parts, store))
    }

    fn of_now(&self, parts: &Parts, store: &Store) -> Option<Actor> {
        match &self.kind {
            Kind::None => None,
            Kind::Extract(find) => find(parts),
            Kind::Credentials => {
                let mut lines = parts.headers.get_all(AUTHORIZATION).iter();
                let credentials = lines.next().filter(|value| !value.is_empty() && lines.next().is_none())?;
                Some(Actor::new(crate::hex(&store.keyed_hash("credentials", &[credentials.as_bytes()])[..16])))
            }
            Kind::Header { name, trusted } => {
                let peer = peer(parts)?;
                let mut lines = parts.headers.get_all(name).iter();
                let value = lines.next().filter(|_| lines.next().is_none())?;
                let id = std::str::from_utf8(value.as_bytes()).ok()?.trim();
                (trusted.contains(peer) && !id.is_empty()).then(|| Actor::new(id))
            }
        }
    }

    /// Takes a header that only a trusted peer may send off a request from somebody else.
    pub(crate) fn strip(&self, parts: &mut Parts) {
        if let Kind::Header { name, trusted } = &self.kind
            && !peer(parts).is_some_and(|peer| trusted.contains(peer))
        {
            parts.headers.remove(name);
        }
    }

    pub(crate) fn fences(&self) -> bool {
        matches!(self.kind, Kind::Credentials)
    }

    /// `Samekey-Actor`: opaque, the same for the same actor. Credentials rotate, so they have none.
    pub(crate) fn tag(&self, actor: &Actor, store: &Store) -> Option<HeaderValue> {
        let tagged = !matches!(self.kind, Kind::Credentials | Kind::None) && *actor != Actor::anonymous();
        tagged.then(|| names::value(&crate::hex(&store.keyed_hash("actor-tag", &[actor.stored().as_bytes()])[..16])))
    }

    pub(crate) fn required(&self) -> &'static str {
        match self.kind {
            Kind::None | Kind::Extract(_) | Kind::Header { .. } => {
                "A request with an idempotency key needs a known caller."
            }
            Kind::Credentials => "A request with an idempotency key needs one Authorization header.",
        }
    }

    /// The first refusal for want of an actor is explained to whoever runs the server.
    pub(crate) fn explain_once(&self) {
        if self.explained.swap(true, Ordering::Relaxed) {
            return;
        }
        let help = match &self.kind {
            Kind::None | Kind::Extract(_) => {
                "no actor: is the authentication layer outside the idempotency layer (added after it)?".to_owned()
            }
            Kind::Credentials => "a keyed request came without an Authorization header; if callers sign in otherwise, \
                let a proxy in front say who they are: --actor header:NAME"
                .to_owned(),
            Kind::Header { name, .. } => {
                format!("a keyed request came without {name} from a trusted peer; see --trusted-proxies")
            }
        };
        tracing::warn!(
            event = "actor_required",
            actor = self.name(),
            help,
            "a keyed request was refused: it has no actor"
        );
    }
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    let from_axum = || parts.extensions.get::<ConnectInfo<std::net::SocketAddr>>().map(|info| info.0.ip());
    parts.extensions.get::<Peer>().map(|peer| peer.0).or_else(from_axum)
}
