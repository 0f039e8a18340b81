//! A body read as what its content type claims, or kept as bytes.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use super::fields::Chosen;
use super::form::{self, FormError, Pair};
use super::media_type::MediaType;
use super::multipart::{self, MultipartError, Part};
use super::{Kind, Payload, json};
use crate::json::{Document, JsonError, Sink};
use crate::select::Profile;

/// Why a body counts byte for byte although its content type asks for more.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawReason {
    /// It has a content coding, `gzip` for example.
    ContentCoding,
    /// It declares a character set other than UTF-8.
    Charset,
    /// It is not strict JSON.
    Json(JsonError),
    /// It is not a form.
    Form(FormError),
    /// It is not `multipart/form-data`.
    Multipart(MultipartError),
}

impl fmt::Display for RawReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContentCoding => f.write_str("it has a content coding"),
            Self::Charset => f.write_str("it declares a character set other than UTF-8"),
            Self::Json(error) => write!(f, "not strict JSON: {error}"),
            Self::Form(error) => write!(f, "not a form: {error}"),
            Self::Multipart(error) => write!(f, "not multipart/form-data: {error}"),
        }
    }
}

pub(super) enum Body<'a> {
    Json(Document<'a>),
    Form(Vec<Pair<'a>>),
    Multipart(Vec<Part<'a>>),
    Raw(&'a [u8], Option<RawReason>),
}

/// A body and what was said about it, normalised.
pub(super) struct Reading<'a> {
    /// In lower case; the whole value where it is no media type.
    pub(super) essence: String,
    /// Empty for UTF-8, which is also the default.
    pub(super) charset: String,
    /// Empty for none and `identity`.
    pub(super) coding: String,
    pub(super) body: Body<'a>,
}

impl<'a> Reading<'a> {
    pub(super) fn of(payload: &Payload<'a>) -> Self {
        let mut reading = Self {
            essence: String::new(),
            charset: String::new(),
            coding: String::new(),
            body: Body::Raw(payload.body, None),
        };
        if payload.body.is_empty() {
            return reading;
        }
        let coding = lower_case(payload.content_encoding.unwrap_or_default());
        if coding != "identity" {
            reading.coding = coding;
        }
        let content_type = payload.content_type.unwrap_or_default();
        let Some(media_type) = MediaType::parse(content_type) else {
            reading.essence = lower_case(content_type);
            return reading;
        };
        let charset = lower_case(media_type.parameter("charset").unwrap_or_default());
        if charset != "utf-8" && charset != "utf8" {
            reading.charset = charset;
        }
        reading.body = reading.read(payload.body, &media_type);
        reading.essence = media_type.essence;
        reading
    }

    fn read(&self, body: &'a [u8], media_type: &MediaType) -> Body<'a> {
        let essence = media_type.essence.as_str();
        let read = match essence {
            "application/x-www-form-urlencoded" | "multipart/form-data" => true,
            _ => is_json(essence),
        };
        if !read {
            return Body::Raw(body, None);
        }
        let parsed = if !self.coding.is_empty() {
            Err(RawReason::ContentCoding)
        } else if !self.charset.is_empty() {
            Err(RawReason::Charset)
        } else if essence == "multipart/form-data" {
            multipart::parse(body, media_type.parameter("boundary")).map(Body::Multipart).map_err(RawReason::Multipart)
        } else if is_json(essence) {
            Document::read(body).map(Body::Json).map_err(RawReason::Json)
        } else {
            form::parse(body).map(Body::Form).map_err(RawReason::Form)
        };
        parsed.unwrap_or_else(|reason| Body::Raw(body, Some(reason)))
    }
}

impl Body<'_> {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Json(_) => Kind::Json,
            Self::Form(_) => Kind::Form,
            Self::Multipart(_) => Kind::Multipart,
            Self::Raw(..) => Kind::Raw,
        }
    }

    /// Writes what counts of it.
    pub(super) fn write(&self, profile: &Profile, sink: &mut impl Sink) {
        match self {
            Self::Json(document) => json::write(document, &profile.selection, sink),
            Self::Form(pairs) => Chosen::of(pairs, &profile.selection).write(sink),
            Self::Multipart(parts) => Chosen::of(parts, &profile.selection).write(sink),
            Self::Raw(bytes, _) => sink.put(bytes),
        }
    }
}

/// RFC 8259, section 11, and RFC 6839, section 3.1.
fn is_json(essence: &str) -> bool {
    essence == "application/json" || essence.ends_with("+json")
}

/// Bytes that should be ASCII; others are kept apart, if not readable.
fn lower_case(value: &[u8]) -> String {
    value.trim_ascii().iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect()
}
