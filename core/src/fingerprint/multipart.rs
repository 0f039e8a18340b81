//! `multipart/form-data` (RFC 7578, RFC 2046), read as strictly as browsers write it.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest, Sha256};

use super::fields::Field;
use super::media_type::MediaType;
use crate::hex;
use crate::uri::percent_encode;

/// Where a body stops being `multipart/form-data`, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipartError {
    /// Bytes before the offending part, header or delimiter.
    pub offset: usize,
    /// What is wrong there.
    pub reason: MultipartReason,
}

/// Why a body is not `multipart/form-data`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipartReason {
    /// No boundary in the content type, or none of 1 to 70 characters.
    NoBoundary,
    /// Something in front of the first delimiter.
    Preamble,
    /// Something behind the last delimiter.
    Epilogue,
    /// The last delimiter is missing.
    Unfinished,
    /// A line that starts like a delimiter and goes on.
    InvalidDelimiter,
    /// A header that is none, or that this reader does not know the meaning of.
    InvalidHeader,
    /// No `Content-Disposition: form-data` with a name.
    NoName,
    /// A part with a transfer encoding.
    Encoded,
    /// A part that has parts.
    Nested,
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            MultipartReason::NoBoundary => "no boundary in the content type",
            MultipartReason::Preamble => "something in front of the first part",
            MultipartReason::Epilogue => "something behind the last part",
            MultipartReason::Unfinished => "the last boundary is missing",
            MultipartReason::InvalidDelimiter => "an invalid boundary line",
            MultipartReason::InvalidHeader => "an invalid or unknown header of a part",
            MultipartReason::NoName => "a part without a name",
            MultipartReason::Encoded => "a part with a transfer encoding",
            MultipartReason::Nested => "a part that has parts",
        };
        write!(f, "{reason} at byte {}", self.offset)
    }
}

impl core::error::Error for MultipartError {}

/// A part, its header values as sent.
pub(super) struct Part<'a> {
    name: &'a [u8],
    file_name: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    digest: [u8; 32],
}

pub(super) fn parse<'a>(body: &'a [u8], boundary: Option<&[u8]>) -> Result<Vec<Part<'a>>, MultipartError> {
    let fail = |offset, reason| Err(MultipartError { offset, reason });
    let delimiter = match boundary {
        // Without line ends: the search below relies on it.
        Some(boundary @ [_, ..]) if boundary.len() <= 70 && boundary.iter().all(|byte| matches!(byte, b' '..=b'~')) => {
            [b"\r\n--", boundary].concat()
        }
        _ => return fail(0, MultipartReason::NoBoundary),
    };
    if !body.starts_with(&delimiter[2..]) {
        return fail(0, MultipartReason::Preamble);
    }
    let mut parts = Vec::new();
    let mut at = delimiter.len() - 2;
    loop {
        match &body[at..] {
            [b'-', b'-'] | [b'-', b'-', b'\r', b'\n'] => return Ok(parts),
            [b'-', b'-', ..] => return fail(at + 2, MultipartReason::Epilogue),
            [b'\r', b'\n', ..] => at += 2,
            [] | [b'\r' | b'-'] => return fail(at, MultipartReason::Unfinished),
            _ => return fail(at, MultipartReason::InvalidDelimiter),
        }
        let Some(length) = find(&body[at..], &delimiter) else {
            return fail(at, MultipartReason::Unfinished);
        };
        parts.push(part(&body[at..at + length], at)?);
        at += length + delimiter.len();
    }
}

/// Where a delimiter begins. Linear, since its only `\r` is the first byte: no comparison overlaps the next.
fn find(haystack: &[u8], delimiter: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = haystack[at..].iter().position(|byte| *byte == b'\r') {
        at += next;
        if haystack[at..].starts_with(delimiter) {
            return Some(at);
        }
        at += 1;
    }
    None
}

fn part(bytes: &[u8], offset: usize) -> Result<Part<'_>, MultipartError> {
    let fail = |at, reason| Err(MultipartError { offset: offset + at, reason });
    let mut disposition = None;
    let mut content_type = None;
    let mut length = None;
    let mut at = 0;
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else {
            return fail(at, MultipartReason::InvalidHeader);
        };
        let line = &bytes[at..at + end];
        let start = at;
        at += end + 2;
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return fail(start, MultipartReason::InvalidHeader);
        };
        let value = line[colon + 1..].trim_ascii();
        let before = match line[..colon].to_ascii_lowercase().as_slice() {
            b"content-disposition" => disposition.replace(value),
            b"content-type" => content_type.replace(value),
            // What it says is checked against the content, so nothing is lost by leaving it out.
            b"content-length" => length.replace(value),
            b"content-transfer-encoding" => return fail(start, MultipartReason::Encoded),
            _ => return fail(start, MultipartReason::InvalidHeader),
        };
        if before.is_some() || line.contains(&b'\n') {
            return fail(start, MultipartReason::InvalidHeader);
        }
    }
    let content = &bytes[at..];
    if length.is_some_and(|length| {
        core::str::from_utf8(length).ok().and_then(|text| text.parse().ok()) != Some(content.len())
    }) {
        return fail(0, MultipartReason::InvalidHeader);
    }
    if content_type.is_some_and(is_multipart) {
        return fail(0, MultipartReason::Nested);
    }
    let Some(Disposition { name, file_name }) = disposition.and_then(Disposition::parse) else {
        return fail(0, MultipartReason::NoName);
    };
    Ok(Part { name, file_name, content_type, digest: Sha256::digest(content).into() })
}

/// A type that is not understood is taken for one that nests.
fn is_multipart(content_type: &[u8]) -> bool {
    MediaType::parse(content_type).is_none_or(|media_type| media_type.essence.starts_with("multipart/"))
}

struct Disposition<'a> {
    name: &'a [u8],
    file_name: Option<&'a [u8]>,
}

impl<'a> Disposition<'a> {
    /// `form-data; name="…"; filename="…"`, nothing else: `filename*` would be a second name for the same file.
    fn parse(value: &'a [u8]) -> Option<Self> {
        let (kind, mut rest) = value.split_at_checked(9)?;
        if !kind.eq_ignore_ascii_case(b"form-data") {
            return None;
        }
        let (mut name, mut file_name) = (None, None);
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                return name.map(|name| Self { name, file_name });
            }
            rest = rest.strip_prefix(b";")?.trim_ascii_start();
            let equals = rest.iter().position(|byte| *byte == b'=')?;
            let parameter = rest[..equals].to_ascii_lowercase();
            rest = &rest[equals + 1..];
            let value = quoted_or_token(&mut rest)?;
            let before = match parameter.as_slice() {
                b"name" => name.replace(value),
                b"filename" => file_name.replace(value),
                _ => return None,
            };
            if before.is_some() {
                return None;
            }
        }
    }
}

/// The inside of a quoted string as sent (browsers write `"` as `%22`, others as `\"`), or a token.
fn quoted_or_token<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = *rest;
    if text.first() != Some(&b'"') {
        let end = text.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t' | b'"')).unwrap_or(text.len());
        *rest = &text[end..];
        return (end > 0).then(|| &text[..end]);
    }
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                *rest = &text[at + 1..];
                return Some(&text[1..at]);
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

impl Field for Part<'_> {
    const SEPARATOR: &'static [u8] = b"\n";

    fn name(&self) -> &[u8] {
        self.name
    }

    fn write(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(b"name=");
        percent_encode(self.name, text);
        for (label, value) in [(";filename=", self.file_name), (";type=", self.content_type)] {
            if let Some(value) = value {
                text.extend_from_slice(label.as_bytes());
                percent_encode(value, text);
            }
        }
        let mut digits = String::with_capacity(64);
        hex::push(&mut digits, &self.digest);
        text.extend_from_slice(b";sha256=");
        text.extend_from_slice(digits.as_bytes());
    }
}
