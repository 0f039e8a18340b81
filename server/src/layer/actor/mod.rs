//! Who asks. Actors are never merged: without a sure one, a keyed request is refused.

mod header;
pub(super) mod id;
#[cfg(feature = "cli")]
pub(crate) mod jwt;
#[cfg(feature = "cli")]
pub(crate) mod verifying_keys;
#[cfg(feature = "cli")]
pub(crate) mod whoami;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use samekey_core::Actor;

use self::header::FromHeader;
pub use self::header::{Peer, Trusted};
use crate::names;
use crate::problem::Problem;
use crate::store::{Secret, Store};

/// How the actor of a request is found.
#[derive(Clone)]
pub struct ActorSource {
    kind: Kind,
    told: Arc<Told>,
}

/// What whoever runs the server has been told already.
#[derive(Debug, Default)]
struct Told {
    missing: AtomicBool,
    changed: AtomicBool,
}

/// Finds the actor in a request's head.
pub(crate) type Find = dyn Fn(&Parts) -> Option<Actor> + Send + Sync;

#[derive(Clone)]
enum Kind {
    None,
    Extract(Arc<Find>),
    Credentials,
    Header(FromHeader),
    Constant(Actor),
    #[cfg(feature = "cli")]
    Jwt(Arc<jwt::Jwt>),
    #[cfg(feature = "cli")]
    Whoami(Arc<whoami::Whoami>),
}

impl std::fmt::Debug for ActorSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.identity())
    }
}

impl ActorSource {
    fn new(kind: Kind) -> Self {
        Self { kind, told: Arc::default() }
    }

    pub(crate) fn none() -> Self {
        Self::new(Kind::None)
    }

    /// By a function of the request's head.
    pub fn extract(find: impl Fn(&Parts) -> Option<Actor> + Send + Sync + 'static) -> Self {
        Self::new(Kind::Extract(Arc::new(find)))
    }

    /// By a keyed hash of `Authorization`. Credentials rotate, so a key with a UUID or ULID that is known under
    /// other credentials is refused (`actor_changed`) instead of run.
    pub fn credentials() -> Self {
        Self::new(Kind::Credentials)
    }

    /// By a header that a proxy in front sets; believed from trusted peers only.
    pub fn header(name: HeaderName, trusted: Trusted) -> Self {
        Self::new(Kind::Header(FromHeader { name, trusted }))
    }

    /// All callers are this one. Whoever knows a key then hears its answer, so only keys with a UUID or ULID in
    /// them are accepted.
    pub fn constant(actor: Actor) -> Self {
        Self::new(Kind::Constant(actor))
    }

    /// By a claim of a token that is verified here.
    #[cfg(feature = "cli")]
    pub(crate) fn jwt(jwt: jwt::Jwt) -> Self {
        Self::new(Kind::Jwt(Arc::new(jwt)))
    }

    /// By asking the application.
    #[cfg(feature = "cli")]
    pub(crate) fn whoami(whoami: whoami::Whoami) -> Self {
        Self::new(Kind::Whoami(Arc::new(whoami)))
    }

    /// Names the ids that this source gives: two sources with one identity give a caller the same id.
    pub(crate) fn identity(&self) -> String {
        match &self.kind {
            Kind::None => "none".into(),
            Kind::Extract(_) => "extract".into(),
            Kind::Credentials => "credentials".into(),
            Kind::Header(header) => format!("header:{}", header.name),
            Kind::Constant(actor) => format!("constant:{}", actor.as_str()),
            #[cfg(feature = "cli")]
            Kind::Jwt(jwt) => format!("jwt:{}", jwt.claim()),
            #[cfg(feature = "cli")]
            Kind::Whoami(whoami) => format!("whoami:#{}", whoami.pointer()),
        }
    }

    /// The actor of a request; an error where it says who it is in a way that cannot be believed, or where that
    /// cannot be found out now.
    pub(crate) async fn of(&self, parts: &Parts, store: &Store) -> Result<Option<Actor>, Problem> {
        match &self.kind {
            Kind::None => Ok(None),
            Kind::Extract(find) => Ok(find(parts)),
            Kind::Credentials => credentials(parts, store),
            Kind::Header(header) => header.find(parts),
            Kind::Constant(actor) => Ok(Some(actor.clone())),
            #[cfg(feature = "cli")]
            Kind::Jwt(jwt) => jwt.find(parts).await,
            #[cfg(feature = "cli")]
            Kind::Whoami(whoami) => whoami.find(parts, store).await,
        }
    }

    /// Takes a header that only a trusted peer may send off a request from somebody else.
    pub(crate) fn strip(&self, parts: &mut Parts) {
        if let Kind::Header(header) = &self.kind {
            header.strip(parts);
        }
    }

    /// Credentials rotate: a key known under other ones is not run.
    pub(crate) fn fences(&self) -> bool {
        matches!(self.kind, Kind::Credentials)
    }

    /// Nothing but the key tells callers apart.
    pub(crate) fn key_is_the_secret(&self) -> bool {
        matches!(self.kind, Kind::Constant(_))
    }

    /// `Samekey-Actor`: opaque, the same for the same actor. Credentials rotate, and one actor for all tells nothing:
    /// neither has one.
    pub(crate) fn tag(&self, actor: &Actor, store: &Store) -> Option<HeaderValue> {
        let tagged =
            !matches!(self.kind, Kind::Credentials | Kind::None | Kind::Constant(_)) && *actor != Actor::anonymous();
        tagged.then(|| names::value(&crate::hex(&store.keyed_hash("actor-tag", &[actor.stored().as_bytes()])[..16])))
    }

    pub(crate) fn required(&self) -> &'static str {
        match self.kind {
            Kind::None | Kind::Extract(_) | Kind::Header(_) | Kind::Constant(_) => {
                "A request with an idempotency key needs a known caller."
            }
            Kind::Credentials => "A request with an idempotency key needs one Authorization header.",
            #[cfg(feature = "cli")]
            Kind::Jwt(_) => "A request with an idempotency key needs a token: Authorization: Bearer …",
            #[cfg(feature = "cli")]
            Kind::Whoami(_) => "A request with an idempotency key needs somebody who is signed in.",
        }
    }

    /// The first refusal for want of an actor is explained to whoever runs the server.
    pub(crate) fn explain_once(&self) {
        if self.told.missing.swap(true, Ordering::Relaxed) {
            return;
        }
        let help = match &self.kind {
            Kind::None | Kind::Extract(_) => {
                "no actor: is the authentication layer outside the idempotency layer (added after it)?".to_owned()
            }
            Kind::Credentials => {
                "a keyed request came without one Authorization header; if callers sign in otherwise, \
                say who they are: --actor header:NAME where a proxy in front knows it, jwt:CLAIM for tokens in \
                Authorization, whoami:URL#/pointer for sessions in cookies"
                    .to_owned()
            }
            Kind::Header(header) => {
                format!(
                    "a keyed request came without one name in {} from a trusted peer; see --trusted-proxies",
                    header.name
                )
            }
            Kind::Constant(_) => "one actor for all is always known".to_owned(),
            #[cfg(feature = "cli")]
            Kind::Jwt(jwt) => jwt.help(),
            #[cfg(feature = "cli")]
            Kind::Whoami(whoami) => whoami.help(),
        };
        tracing::warn!(
            event = "actor_required",
            actor = self.identity(),
            help,
            "a keyed request was refused: it has no actor"
        );
    }

    /// The first retry under other credentials is explained to whoever runs the server.
    pub(crate) fn explain_change_once(&self) {
        if !matches!(self.kind, Kind::Credentials) || self.told.changed.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            event = "actor_changed",
            actor = self.identity(),
            help = "tokens that are refreshed make one caller look like two; name callers by what stays: \
                --actor jwt:sub, header:NAME or whoami:URL#/pointer",
            "a key came again under other credentials and was not run"
        );
    }
}

/// A keyed hash of the credentials: the store must not hold what signs anybody in.
fn credentials(parts: &Parts, store: &Store) -> Result<Option<Actor>, Problem> {
    let credentials = id::only_line(&parts.headers, &AUTHORIZATION)?;
    Ok(credentials.map(|line| of_credentials(line.as_bytes(), store.secret())))
}

/// The actor whose `Authorization` says this.
pub(crate) fn of_credentials(line: &[u8], secret: &Secret) -> Actor {
    Actor::new(crate::hex(&secret.keyed_hash("credentials", &[line])[..16]))
}
