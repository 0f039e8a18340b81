//! An actor by a claim of a token that is verified here: RFC 7519 by RFC 6750 (`Authorization: Bearer`).

use std::fmt;

use http::header::AUTHORIZATION;
use http::request::Parts;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use samekey_core::Actor;
use samekey_core::problem::Code;
use serde_json::Value;

use super::id;
use super::verifying_keys::VerifyingKeys;
use crate::problem::Problem;

/// How far the issuer's clock may be off, for `exp` and `nbf`.
pub(crate) const LEEWAY_SECONDS: u64 = 60;
/// Longer tokens do not fit through the usual proxies either.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Which claim says who asks: a top-level name, or a pointer (RFC 6901) if it begins with a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim(String);

impl Claim {
    /// Any text but the empty one and those that say the same of all callers.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        match text {
            "" | "/" => Err("the claim's name is missing; write for instance jwt:sub".into()),
            "iss" | "aud" | "exp" | "nbf" | "iat" | "jti" => {
                Err(format!("{text} does not say who asks; write for instance jwt:sub"))
            }
            _ => Ok(Self(text.to_owned())),
        }
    }

    fn find<'a>(&self, claims: &'a Value) -> Option<&'a Value> {
        if self.0.starts_with('/') { claims.pointer(&self.0) } else { claims.get(&self.0) }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Verifies tokens and finds the actor in them.
#[derive(Debug)]
pub(crate) struct Jwt {
    claim: Claim,
    keys: VerifyingKeys,
    validation: Validation,
}

/// Why a token is not accepted. The words are for the log; the caller hears less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Malformed,
    Algorithm,
    Key,
    Signature,
    Expired,
    TooEarly,
    Audience,
    Issuer,
    Claims,
    Actor,
}

impl Refused {
    fn why(self) -> &'static str {
        match self {
            Self::Malformed => "it is no signed token",
            Self::Algorithm => "its algorithm is not one of the key's",
            Self::Key => "its key is not known",
            Self::Signature => "its signature does not match",
            Self::Expired => "it has expired",
            Self::TooEarly => "it is not valid yet",
            Self::Audience => "it is meant for another audience",
            Self::Issuer => "it comes from another issuer",
            Self::Claims => "a claim that is needed is missing or malformed",
            Self::Actor => "the claim that names the actor is missing, or no string or integer",
        }
    }

    fn problem(self) -> Problem {
        let detail = match self {
            Self::Expired => "The token has expired. Nothing was run.",
            _ => "The token is not accepted. Nothing was run.",
        };
        Problem { invalid_token: true, ..Problem::new(Code::ActorRequired, detail) }
    }
}

impl From<jsonwebtoken::errors::Error> for Refused {
    fn from(error: jsonwebtoken::errors::Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm | ErrorKind::InvalidKeyFormat => {
                Self::Algorithm
            }
            ErrorKind::InvalidSignature => Self::Signature,
            ErrorKind::ExpiredSignature => Self::Expired,
            ErrorKind::ImmatureSignature => Self::TooEarly,
            ErrorKind::InvalidAudience => Self::Audience,
            ErrorKind::InvalidIssuer => Self::Issuer,
            ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => Self::Claims,
            _ => Self::Malformed,
        }
    }
}

impl Jwt {
    /// Tokens for one of these audiences and, if any are named, from one of these issuers.
    pub(crate) fn new(claim: Claim, keys: VerifyingKeys, audiences: &[String], issuers: &[String]) -> Self {
        // The algorithms are the key's; this one is replaced.
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_audience(audiences);
        let mut required = vec!["exp", "aud"];
        if !issuers.is_empty() {
            validation.set_issuer(issuers);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        Self { claim, keys, validation }
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn help(&self) -> String {
        let audiences: Vec<&str> = self.validation.aud.iter().flatten().map(String::as_str).collect();
        format!(
            "a keyed request came without a token that is signed by a known key, not expired, meant for {}, and has \
             the claim {}; --log-level samekey=debug says why each one is refused",
            audiences.join(" or "),
            self.claim
        )
    }

    pub(super) async fn find(&self, parts: &Parts) -> Result<Option<Actor>, Problem> {
        let line = id::only_line(&parts.headers, &AUTHORIZATION)
            .map_err(|problem| Problem { invalid_token: true, ..problem })?;
        let Some(token) = line.and_then(|line| bearer(line.as_bytes())) else { return Ok(None) };
        let verified = self.verify(token).await;
        verified.map(Some).map_err(|refused| {
            tracing::debug!(event = "token_refused", why = refused.why());
            refused.problem()
        })
    }

    async fn verify(&self, token: &[u8]) -> Result<Actor, Refused> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Refused::Malformed);
        }
        let header = decode_header(token).map_err(|_| Refused::Malformed)?;
        // A token within a token, or an encrypted one: neither is what a signature over claims says.
        if header.enc.is_some() || header.zip.is_some() || header.cty.is_some_and(|cty| cty.eq_ignore_ascii_case("jwt"))
        {
            return Err(Refused::Malformed);
        }
        let key = self.keys.find(header.kid.as_deref()).await.ok_or(Refused::Key)?;
        if !key.algorithms.contains(&header.alg) {
            return Err(Refused::Algorithm);
        }
        let validation = Validation { algorithms: key.algorithms.clone(), ..self.validation.clone() };
        let claims = decode::<Value>(token, &key.key, &validation)?.claims;
        self.actor(&claims).ok_or(Refused::Actor)
    }

    /// Two issuers may give two people one `sub`: the issuer is part of the id, `ISSUER CLAIM`, whichever of them
    /// are configured, so that naming one more does not change anybody's id. An issuer has no blank in it (it is a
    /// URL or a name); a claim that has one is told from such a pair by a blank in front.
    fn actor(&self, claims: &Value) -> Option<Actor> {
        let claim = id::text(self.claim.find(claims)?)?;
        // Empty or unprintable is nobody, with an issuer in front as well.
        id::actor(&claim)?;
        let whole = match claims.get("iss") {
            Some(Value::String(issuer)) if !issuer.is_empty() && !issuer.contains(char::is_whitespace) => {
                format!("{issuer} {claim}")
            }
            None | Some(Value::Null) if claim.contains(' ') => format!(" {claim}"),
            None | Some(Value::Null) => claim,
            Some(_) => return None,
        };
        id::actor(&whole)
    }
}

/// What follows `Bearer `, in any case of letters.
fn bearer(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let (scheme, token) = line.split_at_checked(6)?;
    let sent = scheme.eq_ignore_ascii_case(b"bearer") && token.first().is_none_or(|byte| *byte == b' ');
    sent.then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests;
