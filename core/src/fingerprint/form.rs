//! `application/x-www-form-urlencoded`, read strictly.

use core::fmt;

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::fields::Field;
use crate::uri::{is_uri_character, percent_decode, percent_encode};

/// Where a body stops being a form, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormError {
    /// Bytes before the offending one.
    pub offset: usize,
    /// What is wrong there.
    pub reason: FormReason,
}

/// Why a body is not a form.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormReason {
    /// A `%` without two hexadecimal digits.
    InvalidEscape,
    /// A character that has no place in a URI (RFC 3986, section 2): this is JSON or a multipart body under a wrong name.
    InvalidCharacter,
    /// Nothing between two `&`, or at an end.
    EmptyPair,
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            FormReason::InvalidEscape => "`%` without two hexadecimal digits",
            FormReason::InvalidCharacter => "a character that a form encodes",
            FormReason::EmptyPair => "an empty pair",
        };
        write!(f, "{reason} at byte {}", self.offset)
    }
}

impl core::error::Error for FormError {}

/// A field as (name, value); a field without `=` has no value, which some applications tell from an empty one.
pub(super) struct Pair<'a> {
    name: Cow<'a, [u8]>,
    value: Option<Cow<'a, [u8]>>,
}

pub(super) fn parse(body: &[u8]) -> Result<Vec<Pair<'_>>, FormError> {
    let mut pairs = Vec::new();
    let mut at = 0;
    if let Some(offset) = body.iter().position(|byte| !is_uri_character(*byte)) {
        return Err(FormError { offset, reason: FormReason::InvalidCharacter });
    }
    for pair in body.split(|byte| *byte == b'&') {
        if pair.is_empty() {
            return Err(FormError { offset: at, reason: FormReason::EmptyPair });
        }
        let equals = pair.iter().position(|byte| *byte == b'=');
        let name = decode(&pair[..equals.unwrap_or(pair.len())], at)?;
        let value = equals.map(|equals| decode(&pair[equals + 1..], at + equals + 1)).transpose()?;
        pairs.push(Pair { name, value });
        at += pair.len() + 1;
    }
    Ok(pairs)
}

/// `+` is a space, and then every triplet a byte.
fn decode(text: &[u8], at: usize) -> Result<Cow<'_, [u8]>, FormError> {
    let invalid =
        |error: crate::uri::PercentError| FormError { offset: at + error.offset, reason: FormReason::InvalidEscape };
    if !text.contains(&b'+') {
        return percent_decode(text).map_err(invalid);
    }
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&spaced).map(|decoded| Cow::Owned(decoded.into_owned())).map_err(invalid)
}

impl Field for Pair<'_> {
    const SEPARATOR: &'static [u8] = b"&";

    fn name(&self) -> &[u8] {
        &self.name
    }

    fn write(&self, text: &mut Vec<u8>) {
        percent_encode(&self.name, text);
        if let Some(value) = &self.value {
            text.push(b'=');
            percent_encode(value, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str) -> Result<Vec<u8>, FormReason> {
        let mut text = Vec::new();
        for pair in parse(body.as_bytes()).map_err(|error| error.reason)? {
            pair.write(&mut text);
            text.push(b'|');
        }
        Ok(text)
    }

    #[test]
    fn pairs_keep_their_order_and_their_bytes() {
        assert_eq!(text("b=1&a=x+y&a=%20&c&d=&%ff=%fE"), Ok(b"b=1|a=x%20y|a=%20|c|d=|%FF=%FE|".to_vec()));
        assert_eq!(text("items[0][sku]=a=b"), Ok(b"items%5B0%5D%5Bsku%5D=a%3Db|".to_vec()));
    }

    #[test]
    fn what_is_no_form_is_refused() {
        for (body, reason) in [
            ("a=%", FormReason::InvalidEscape),
            ("a=%4&b=1", FormReason::InvalidEscape),
            ("a=+%zz", FormReason::InvalidEscape),
            ("a=1&", FormReason::EmptyPair),
            ("&a=1", FormReason::EmptyPair),
            ("a=1&&b=2", FormReason::EmptyPair),
            ("a=x y", FormReason::InvalidCharacter),
            ("{\"a\":1}", FormReason::InvalidCharacter),
            ("a=é", FormReason::InvalidCharacter),
            ("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", FormReason::InvalidCharacter),
        ] {
            assert_eq!(text(body), Err(reason), "{body}");
        }
    }
}
