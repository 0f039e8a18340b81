//! Who asks: the kinds of actor, what each needs, and what to write where something is missing.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use http::{HeaderName, Uri};
use ipnet::IpNet;
use samekey_core::Actor;

use crate::layer::actor::jwt::{Claim, Jwt};
use crate::layer::actor::verifying_keys::{KeyFile, VerifyingKeys};
use crate::layer::actor::whoami::Whoami;
use crate::layer::{ActorSource, Trusted};
use crate::proxy::ask;
use crate::store::Store;

/// Who asks, from flags or from a file: every part can be read from text by `FromStr` or [`network`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Who asks")]
pub(crate) struct ActorArgs {
    /// Who asks: `credentials` (a keyed hash of Authorization), `jwt:CLAIM` (a token verified here), `whoami:URL#/pointer`
    /// (asks the service), `header:NAME` (set by a proxy in front), or `constant:NAME` (everybody is one)
    #[arg(long, env = "SAMEKEY_ACTOR", value_name = "KIND", default_value = "credentials")]
    pub(crate) actor: ActorKind,

    /// Addresses and networks whose actor header and Forwarded are believed, for instance 10.0.0.0/8,::1 [default: loopback]
    #[arg(long, env = "SAMEKEY_TRUSTED_PROXIES", value_name = "NETWORK", value_delimiter = ',', value_parser = network)]
    pub(crate) trusted_proxies: Vec<IpNet>,

    /// The key that tokens are verified with: a PEM public key (RSA, P-256, P-384, Ed25519), or the secret of HS256,
    /// HS384 and HS512
    #[arg(long, env = "SAMEKEY_JWT_KEY_FILE", value_name = "FILE")]
    pub(crate) jwt_key_file: Option<PathBuf>,

    /// Instead of one key: a JWK set, from which tokens choose by `kid`
    #[arg(long, env = "SAMEKEY_JWKS_FILE", value_name = "FILE")]
    pub(crate) jwks_file: Option<PathBuf>,

    /// What tokens must be meant for, their `aud`; several with commas between
    #[arg(long, env = "SAMEKEY_JWT_AUDIENCE", value_name = "NAME", value_delimiter = ',')]
    pub(crate) jwt_audience: Vec<String>,

    /// Who must have issued a token, its `iss`; several with commas between [default: whoever has the key]
    #[arg(long, env = "SAMEKEY_JWT_ISSUER", value_name = "NAME", value_delimiter = ',')]
    pub(crate) jwt_issuer: Vec<String>,

    /// With `constant:NAME`: whoever knows a key may hear its answer, and all share one quota
    #[arg(long, env = "SAMEKEY_ACCEPT_SHARED_ACTOR")]
    pub(crate) accept_shared_actor: bool,

    /// Start although the kind of actor changed: keys that are still remembered belong to nobody then, and a retry of
    /// one runs again
    #[arg(long, env = "SAMEKEY_ACCEPT_ACTOR_CHANGE")]
    pub(crate) accept_actor_change: bool,
}

/// `credentials`, `jwt:CLAIM`, `whoami:URL#/pointer`, `header:NAME`, `constant:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ActorKind {
    Credentials,
    Jwt(Claim),
    Whoami { url: Place, pointer: String },
    Header(HeaderName),
    Constant(String),
}

/// Where the service, or another one, is asked something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A path on the upstream.
    Path(String),
    Absolute(Uri),
}

impl Place {
    /// The address, with this upstream. Paths lie below the upstream's own, as the requests themselves are sent.
    pub(crate) fn uri(&self, upstream: Option<&Uri>) -> anyhow::Result<Uri> {
        match self {
            Self::Absolute(url) => Ok(url.clone()),
            Self::Path(path) => below(upstream.context("nothing says where your service is")?, path),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        if url.starts_with('/') {
            let path: Result<http::uri::PathAndQuery, _> = url.parse();
            return path.map(|path| Self::Path(path.to_string())).map_err(|_| format!("{url:?} is no path"));
        }
        let uri: Uri = url.parse().map_err(|_| format!("{url:?} is no URL"))?;
        match (uri.scheme_str(), uri.authority()) {
            (Some("http" | "https"), Some(authority)) if !authority.as_str().contains('@') => Ok(Self::Absolute(uri)),
            (Some("http" | "https"), Some(_)) => Err("a URL must not contain a user name or password here".into()),
            _ => Err(format!("{url:?} is neither a path on the upstream nor an http:// or https:// URL")),
        }
    }
}

impl FromStr for ActorKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "credentials" => Ok(Self::Credentials),
            Some(("jwt", claim)) => Claim::new(claim).map(Self::Jwt),
            Some(("whoami", place)) => whoami(place),
            Some(("header", name)) => header(name),
            Some(("constant", name)) if is_name(name) => Ok(Self::Constant(name.into())),
            Some(("constant", name)) => {
                Err(format!("{name:?} is no name; write for instance constant:shop, in up to 64 letters and digits"))
            }
            _ => Err(format!(
                "{text} is no kind of actor; write credentials, jwt:CLAIM, whoami:URL#/pointer, header:NAME or \
                 constant:NAME"
            )),
        }
    }
}

fn header(name: &str) -> Result<ActorKind, String> {
    let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is no header name"))?;
    match name.as_str() {
        "authorization" => Err("for Authorization use `credentials`, which keeps only a hash, or `jwt:sub`".into()),
        "cookie" => Err("for sessions in cookies use `whoami:URL#/pointer`".into()),
        "idempotency-key" | "x-request-id" | "host" | "content-type" => {
            Err(format!("{name} says nothing sure about who asks"))
        }
        ours if ours.starts_with("samekey-") => Err(format!("{name} is taken off every request")),
        _ => Ok(ActorKind::Header(name)),
    }
}

fn whoami(place: &str) -> Result<ActorKind, String> {
    const WRITE: &str = "write for instance whoami:/api/me#/id";
    let Some((url, pointer)) = place.split_once('#').filter(|(_, pointer)| pointer.starts_with('/')) else {
        return Err(format!("behind # stands where the answer's JSON names the caller; {WRITE}"));
    };
    let url = url.parse().map_err(|error| format!("{error}; {WRITE}"))?;
    Ok(ActorKind::Whoami { url, pointer: pointer.into() })
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

impl ActorArgs {
    /// What these settings say, in front of this upstream; reads the files they name. `ca` is what an https upstream,
    /// and so the one who is asked, is checked against.
    pub(crate) fn source(&self, upstream: &Uri, ca: Option<&Path>) -> anyhow::Result<ActorSource> {
        if !matches!(self.actor, ActorKind::Jwt(_)) {
            for (given, flag) in [
                (self.jwt_key_file.is_some(), "--jwt-key-file"),
                (self.jwks_file.is_some(), "--jwks-file"),
                (!self.jwt_audience.is_empty(), "--jwt-audience"),
                (!self.jwt_issuer.is_empty(), "--jwt-issuer"),
            ] {
                if given {
                    bail!("{flag} means nothing without --actor jwt:CLAIM; write for instance --actor jwt:sub");
                }
            }
        }
        Ok(match &self.actor {
            ActorKind::Credentials => ActorSource::credentials(),
            ActorKind::Jwt(claim) => ActorSource::jwt(self.jwt(claim)?),
            ActorKind::Whoami { url, pointer } => {
                let url = url.uri(Some(upstream)).context("--actor whoami")?;
                ActorSource::whoami(Whoami::new(pointer, ask::whoami(url, ca).context("--actor whoami")?))
            }
            ActorKind::Header(name) => ActorSource::header(name.clone(), self.trusted()),
            ActorKind::Constant(_) if !self.accept_shared_actor => bail!(
                "--actor constant:NAME makes all callers one: whoever knows a key hears its answer, and all share one \
                 quota. If no caller may be told from another, add --accept-shared-actor; keys must then contain a \
                 UUID or ULID, because they are all that keeps callers apart"
            ),
            ActorKind::Constant(name) => ActorSource::constant(Actor::new(name)),
        })
    }

    /// Whether [`ActorArgs::source`] would do, wherever the upstream is.
    pub(crate) fn check(&self, upstream: Option<&Uri>, ca: Option<&Path>) -> anyhow::Result<()> {
        self.source(upstream.unwrap_or(&Uri::from_static("http://localhost")), ca).map(drop)
    }

    fn jwt(&self, claim: &Claim) -> anyhow::Result<Jwt> {
        let (flag, file) = match (&self.jwt_key_file, &self.jwks_file) {
            (Some(file), None) => ("--jwt-key-file", KeyFile::One(file.clone())),
            (None, Some(file)) => ("--jwks-file", KeyFile::Set(file.clone())),
            (None, None) => bail!(
                "--actor jwt:{claim} needs the key that tokens are verified with: --jwt-key-file FILE (a PEM public \
                 key or a secret) or --jwks-file FILE"
            ),
            (Some(_), Some(_)) => bail!("--jwt-key-file and --jwks-file name two sources of keys; keep one of them"),
        };
        if self.jwt_audience.iter().all(|audience| audience.trim().is_empty()) {
            bail!(
                "--actor jwt:{claim} needs --jwt-audience NAME, what tokens for this service have as aud: without it a \
                 token that was meant for another service of the same issuer would count here"
            );
        }
        for (flag, names) in [("--jwt-audience", &self.jwt_audience), ("--jwt-issuer", &self.jwt_issuer)] {
            if names.iter().any(|name| name.trim() != name || name.is_empty()) {
                bail!("{flag} has an empty name, or blanks around one; write names with nothing but commas between");
            }
        }
        let keys = VerifyingKeys::open(file).context(flag)?;
        Ok(Jwt::new(claim.clone(), keys, &self.jwt_audience, &self.jwt_issuer))
    }

    /// Whether the ids of actors mean something to the service: a hash of credentials, or one id for all, does not.
    pub(crate) fn names_callers(&self) -> bool {
        match &self.actor {
            ActorKind::Jwt(_) | ActorKind::Whoami { .. } | ActorKind::Header(_) => true,
            ActorKind::Credentials | ActorKind::Constant(_) => false,
        }
    }

    /// Whose word counts on who asks and where a request came from.
    pub(crate) fn trusted(&self) -> Trusted {
        match &self.trusted_proxies[..] {
            [] => Trusted::Loopback,
            networks => Trusted::Networks(networks.to_vec()),
        }
    }

    /// Refuses another kind of actor than the store's records have.
    pub(crate) async fn keep_kind(
        &self,
        source: &ActorSource,
        store: &Store,
        remember: Duration,
    ) -> anyhow::Result<()> {
        let kind = source.identity();
        match store.keep_actor_kind(&kind, remember, self.accept_actor_change).await? {
            None => Ok(()),
            Some(before) => bail!(
                "the records in this store belong to actors by {before}, and --actor is {kind} now: every caller would \
                 be somebody new, no retry would find its record, and commands could run twice. Start with {before}, \
                 or wait until nothing is remembered ({}), or add --accept-actor-change",
                humantime::format_duration(remember)
            ),
        }
    }
}

fn below(upstream: &Uri, path: &str) -> anyhow::Result<Uri> {
    let scheme = upstream.scheme_str().context("the upstream has neither http:// nor https://")?;
    let authority = upstream.authority().context("the upstream names no host")?;
    let base = upstream.path().trim_end_matches('/');
    Ok(Uri::builder().scheme(scheme).authority(authority.clone()).path_and_query(format!("{base}{path}")).build()?)
}

/// An address is a network of one.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse())
        .map_err(|_| format!("{text} is no address or network; write for instance 10.0.0.0/8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(actor: &str) -> ActorArgs {
        ActorArgs {
            actor: actor.parse().unwrap(),
            trusted_proxies: Vec::new(),
            jwt_key_file: None,
            jwks_file: None,
            jwt_audience: Vec::new(),
            jwt_issuer: Vec::new(),
            accept_shared_actor: false,
            accept_actor_change: false,
        }
    }

    #[test]
    fn wrong_kinds_say_what_to_write() {
        for (text, hint) in [
            ("cookie:sid", "header:NAME"),
            ("whoever", "credentials"),
            ("credentials:x", "credentials"),
            ("header:authorization", "credentials"),
            ("header:Cookie", "whoami:"),
            ("header:no such", "no header name"),
            ("header:samekey-actor", "taken off"),
            ("jwt", "jwt:CLAIM"),
            ("jwt:", "jwt:sub"),
            ("jwt:iss", "jwt:sub"),
            ("whoami:/api/me", "#/id"),
            ("whoami:/api/me#id", "#/id"),
            ("whoami:api/me#/id", "whoami:/api/me"),
            ("whoami:ftp://shop.example/me#/id", "https://"),
            ("whoami:http://u:p@shop.example/me#/id", "password"),
            ("constant:", "constant:shop"),
            ("constant:a b", "constant:shop"),
        ] {
            let error = text.parse::<ActorKind>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_kind_needs_is_said() {
        let upstream: Uri = "http://127.0.0.1:3000".parse().unwrap();
        let refused = |args: ActorArgs| format!("{:#}", args.source(&upstream, None).unwrap_err());
        assert!(refused(args("constant:shop")).contains("--accept-shared-actor"));
        assert!(refused(args("jwt:sub")).contains("--jwks-file"));
        let no_audience = ActorArgs { jwks_file: Some("keys.json".into()), ..args("jwt:sub") };
        assert!(refused(no_audience.clone()).contains("--jwt-audience"));
        let no_file = ActorArgs { jwt_audience: vec!["shop".into()], ..no_audience };
        assert!(refused(no_file.clone()).contains("keys.json"));
        assert!(refused(ActorArgs { jwt_key_file: Some("key.pem".into()), ..no_file.clone() }).contains("keep one"));
        assert!(refused(ActorArgs { actor: ActorKind::Credentials, ..no_file }).contains("--actor jwt"));
    }

    #[test]
    fn a_path_lies_below_the_upstream() {
        for (upstream, path, url) in [
            ("http://shop:3000", "/me", "http://shop:3000/me"),
            ("http://shop:3000/base/", "/api/me?x=1", "http://shop:3000/base/api/me?x=1"),
        ] {
            assert_eq!(below(&upstream.parse().unwrap(), path).unwrap(), url);
        }
    }

    #[test]
    fn identities_name_what_decides_about_ids() {
        let upstream: Uri = "http://127.0.0.1:3000".parse().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _guard = runtime.enter();
        for (actor, identity) in [
            ("credentials", "credentials"),
            ("header:X-User-Id", "header:x-user-id"),
            ("whoami:/api/me#/user/id", "whoami:#/user/id"),
            ("whoami:http://auth:80/other#/user/id", "whoami:#/user/id"),
            ("constant:shop", "constant:shop"),
        ] {
            let args = ActorArgs { accept_shared_actor: true, ..args(actor) };
            assert_eq!(args.source(&upstream, None).unwrap().identity(), identity);
        }
    }
}
