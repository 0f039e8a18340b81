//! Where the routes lie.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use samekey_core::uri::normalise_path;

use crate::problem::DEFAULT_PREFIX;

/// The path under which the routes lie: `/.well-known/samekey`, or for instance `/api/samekey` where only part of a
/// host's paths leads here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(Arc<str>);

/// A text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be the path of the routes; write an absolute path of letters, digits and -._~/ without a slash at its end, for instance /api/samekey"
)]
pub struct PrefixError(String);

impl Prefix {
    /// Whether a normalised path lies under this prefix.
    pub(crate) fn covers(&self, path: &str) -> bool {
        path.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(DEFAULT_PREFIX.into())
    }
}

impl std::ops::Deref for Prefix {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let fits = text.starts_with('/')
            && !text.ends_with('/')
            && !text.contains("//")
            && text.bytes().all(plain)
            && normalise_path(text) == text;
        if fits { Ok(Self(text.into())) } else { Err(PrefixError(text.into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_plain_path() {
        for text in ["/.well-known/samekey", "/api/samekey", "/s"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["", "/", "api", "/api/", "/a//b", "/a/../b", "/a?b", "/a#b", "/{a}", "/a%2Fb", "/a b", "/ä"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_longer_word_is_not_under_the_prefix() {
        let prefix = Prefix::default();
        for (path, covered) in [
            ("/.well-known/samekey", true),
            ("/.well-known/samekey/", true),
            ("/.well-known/samekey/x", true),
            ("/.well-known/samekeys", false),
            ("/.well-known", false),
            ("/", false),
        ] {
            assert_eq!(prefix.covers(path), covered, "{path}");
        }
    }
}
