//! The text form that stores keep: `fp1:<kind>:<profile>:<64 digits>`.

use core::fmt;

use alloc::string::{String, ToString};

use crate::hex;
use crate::select::ProfileId;

/// How a payload was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Strict JSON.
    Json,
    /// URL-encoded fields.
    Form,
    /// `multipart/form-data`.
    Multipart,
    /// Bytes.
    Raw,
}

impl Kind {
    /// The word for it in a fingerprint.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Form => "form",
            Self::Multipart => "multipart",
            Self::Raw => "raw",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Json, Self::Form, Self::Multipart, Self::Raw].into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The versioned hash of the significant payload.
///
/// There is no `Display`, and `Debug` shows a prefix: somebody who can guess a payload could confirm the guess by the
/// whole hash. [`Fingerprint::to_text`] is for the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    kind: Kind,
    profile: ProfileId,
    digest: [u8; 32],
}

/// What a delivered fingerprint says about a stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same payload.
    Same,
    /// Another payload.
    Differs,
    /// Nothing: the stored one was taken under this profile. Take the delivered one under it, too, and compare again.
    OtherProfile(ProfileId),
}

impl Fingerprint {
    pub(super) fn new(kind: Kind, profile: ProfileId, digest: [u8; 32]) -> Self {
        Self { kind, profile, digest }
    }

    /// How the payload was read.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The significant fields it was taken of.
    pub fn profile(&self) -> ProfileId {
        self.profile
    }

    /// The hash alone: enough to compare payloads under one profile, as clients do among themselves.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Compares this stored fingerprint with the one of a delivery.
    pub fn compare(&self, delivered: &Self) -> Comparison {
        if self.profile != delivered.profile {
            Comparison::OtherProfile(self.profile)
        } else if self == delivered {
            Comparison::Same
        } else {
            Comparison::Differs
        }
    }

    /// The text to store.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(87);
        text.push_str("fp1:");
        text.push_str(self.kind.as_str());
        text.push(':');
        text.push_str(&self.profile.to_string());
        text.push(':');
        hex::push(&mut text, &self.digest);
        text
    }

    /// Reads what [`Fingerprint::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, FingerprintError> {
        let (version, rest) = text.split_once(':').ok_or(FingerprintError::Malformed)?;
        match version.strip_prefix("fp") {
            Some("1") => {}
            Some(number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(FingerprintError::UnknownVersion);
            }
            _ => return Err(FingerprintError::Malformed),
        }
        let mut parts = rest.splitn(3, ':');
        let mut part = || parts.next().ok_or(FingerprintError::Malformed);
        let kind = Kind::parse(part()?).ok_or(FingerprintError::Malformed)?;
        let profile = part()?.parse().map_err(|_| FingerprintError::Malformed)?;
        let digest = hex::parse(part()?).ok_or(FingerprintError::Malformed)?;
        Ok(Self { kind, profile, digest })
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, ..] = self.digest;
        write!(f, "fp1:{}:{}:{a:02x}{b:02x}{c:02x}…", self.kind, self.profile)
    }
}

/// A stored text that is no fingerprint this version can compare. Neither is a mismatch.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FingerprintError {
    /// Written by a later version of samekey.
    UnknownVersion,
    /// Not a fingerprint.
    Malformed,
}

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownVersion => "a fingerprint of a later version",
            Self::Malformed => "not a fingerprint",
        })
    }
}

impl core::error::Error for FingerprintError {}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn the_text_reads_back_and_debug_keeps_the_digest() {
        for kind in [Kind::Json, Kind::Form, Kind::Multipart, Kind::Raw] {
            let fingerprint = Fingerprint::new(kind, "00ff12ab".parse().unwrap(), [0xc4; 32]);
            assert_eq!(Fingerprint::parse(&fingerprint.to_text()), Ok(fingerprint));
            assert_eq!(format!("{fingerprint:?}"), format!("fp1:{kind}:00ff12ab:c4c4c4…"));
        }
    }

    #[test]
    fn a_later_version_is_told_from_garbage() {
        assert_eq!(Fingerprint::parse("fp2:anything"), Err(FingerprintError::UnknownVersion));
        let good = Fingerprint::new(Kind::Raw, "00ff12ab".parse().unwrap(), [1; 32]).to_text();
        for bad in [
            "",
            "fp1",
            "fp:",
            "fpx:1",
            "FP1:raw",
            "fp1:xml:00ff12ab:00",
            &good[..86 - 6],
            &format!("{good}0"),
            &good.to_uppercase(),
        ] {
            assert_eq!(Fingerprint::parse(bad), Err(FingerprintError::Malformed), "{bad}");
        }
    }
}
