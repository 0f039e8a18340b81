//! What a delivery asks for, in 32 bytes: two deliveries of one intent have the same fingerprint, and a payload that
//! differs in anything significant has another.
//!
//! Hashed with SHA-256, every part framed by its length: the kind, the path parameters, the query string as sent, the
//! significant headers, the media type, the content coding and the payload:
//!
//! * **json** (`application/json`, `*+json`): the canonical form, see [`crate::json`].
//! * **form** (`application/x-www-form-urlencoded`): names and values in order, percent-decoded to bytes.
//! * **multipart** (`multipart/form-data`): name, file name, content type and SHA-256 of each part in order. The
//!   boundary, drawn anew for each attempt, does not count.
//! * **raw**: the bytes. Also for a body that does not strictly parse as what it claims, has a content coding or
//!   declares a character set other than UTF-8: the fingerprint never guesses what the application will make of it.
//!
//! Of the media type the essence counts in lower case, and a `charset` unless it says UTF-8; other parameters do not.
//! An absent body and an empty one are the same, and their content type and coding do not count: programs that send
//! nothing differ in whether they declare what nothing is.

mod body;
mod explain;
mod fields;
mod form;
mod hasher;
mod json;
mod media_type;
mod multipart;
mod query;
mod text;

use alloc::vec::Vec;

use crate::select::Profile;
use body::{Body, Reading};
use hasher::Hasher;

pub use body::RawReason;
pub use explain::{Change, Difference, Place, explain};
pub use form::{FormError, FormReason};
pub use multipart::{MultipartError, MultipartReason};
pub use text::{Comparison, Fingerprint, FingerprintError, Kind};

/// A request as far as its fingerprint needs it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Payload<'a> {
    /// Values of the path template's parameters in its order, percent-decoded once.
    pub path_params: &'a [&'a str],
    /// The query string as sent, without `?`. An empty one is none.
    pub query: Option<&'a str>,
    /// The value of `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// The value of `Content-Encoding`.
    pub content_encoding: Option<&'a [u8]>,
    /// All headers in order; only those that the profile names are looked at.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body as received.
    pub body: &'a [u8],
}

/// The fingerprint of a request under a profile, in time linear in the body (but for sorting members).
pub fn fingerprint(payload: &Payload<'_>, profile: &Profile) -> Fingerprint {
    let reading = Reading::of(payload);
    let kind = reading.body.kind();
    let mut hasher = Hasher::new();
    hasher.frame(kind.as_str().as_bytes());
    hasher.count(payload.path_params.len());
    for value in payload.path_params {
        hasher.frame(value.as_bytes());
    }
    query::hash(payload.query, profile.query.as_deref(), &mut hasher);
    hasher.count(profile.headers.len());
    for name in &profile.headers {
        let values = || header_values(payload, name);
        hasher.frame(name.as_bytes());
        hasher.count(values().count());
        values().for_each(|value| hasher.frame(value));
    }
    hasher.frame(reading.essence.as_bytes());
    hasher.frame(reading.charset.as_bytes());
    hasher.frame(reading.coding.as_bytes());
    // Last and therefore without a length in front, which a canonical form would only have after it was written.
    reading.body.write(profile, &mut hasher);
    Fingerprint::new(kind, profile.id(), hasher.finish())
}

/// What of the body counts, as text: the canonical JSON, the fields, or the bytes. A hole, and what an included pointer
/// did not find, is written `_`; the text of an included selection starts with `~`.
pub fn significant_body(payload: &Payload<'_>, profile: &Profile) -> Vec<u8> {
    let mut text = Vec::new();
    Reading::of(payload).body.write(profile, &mut text);
    text
}

/// Why a payload counts byte for byte, if it does although its content type asks for more.
pub fn why_raw(payload: &Payload<'_>) -> Option<RawReason> {
    match Reading::of(payload).body {
        Body::Raw(_, reason) => reason,
        _ => None,
    }
}

fn header_values<'a>(payload: &Payload<'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    let same = move |header: &&'a (&'a str, &'a [u8])| header.0.eq_ignore_ascii_case(name);
    payload.headers.iter().filter(same).map(|header| header.1.trim_ascii())
}
