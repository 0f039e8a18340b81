//! Percent-encoding and equivalent paths (RFC 3986).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// A `%` that is not followed by two hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentError {
    /// Where it stands.
    pub offset: usize,
}

impl core::fmt::Display for PercentError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`%` without two hexadecimal digits at byte {}", self.offset)
    }
}

impl core::error::Error for PercentError {}

/// Decodes every triplet once, to bytes: a decoder to text would have to merge `%FF` and `%FE`.
pub fn percent_decode(text: &[u8]) -> Result<Cow<'_, [u8]>, PercentError> {
    let Some(mut at) = text.iter().position(|byte| *byte == b'%') else {
        return Ok(Cow::Borrowed(text));
    };
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend_from_slice(&text[..at]);
    while let Some(&byte) = text.get(at) {
        if byte == b'%' {
            decoded.push(triplet(text, at).ok_or(PercentError { offset: at })?);
            at += 3;
        } else {
            decoded.push(byte);
            at += 1;
        }
    }
    Ok(Cow::Owned(decoded))
}

/// Writes bytes so that only unreserved characters stand for themselves: one spelling for each.
pub(crate) fn percent_encode(bytes: &[u8], text: &mut Vec<u8>) {
    for &byte in bytes {
        if is_unreserved(byte) {
            text.push(byte);
        } else {
            push_triplet(byte, text);
        }
    }
}

/// The text as a component of a URI, for instance as a value in a query.
pub fn percent_encoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    percent_encode(text.as_bytes(), &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// The path that all its equivalent spellings share (RFC 3986, sections 6.2.2.1 to 6.2.2.3): triplets in upper case,
/// unreserved characters decoded, dot segments removed.
///
/// `%2F` stays what it is, slashes are not merged and a stray `%` is kept: servers differ on these, so they are not
/// equivalent.
pub fn normalise_path(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match triplet(bytes, at) {
            Some(unreserved) if is_unreserved(unreserved) => decoded.push(unreserved),
            Some(other) => push_triplet(other, &mut decoded),
            None => decoded.push(byte),
        }
        at += if byte == b'%' && triplet(bytes, at).is_some() { 3 } else { 1 };
    }
    // Only ASCII was taken out and put in.
    String::from_utf8(without_dot_segments(&decoded)).unwrap_or_else(|_| path.into())
}

/// RFC 3986, section 5.2.4, over segments: `.` vanishes, `..` takes the one before with it.
fn without_dot_segments(path: &[u8]) -> Vec<u8> {
    let (root, rest) = match path {
        [b'/', rest @ ..] => (&b"/"[..], rest),
        rest => (&b""[..], rest),
    };
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = rest.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
        // A dot segment at the end leaves the slash in front of it.
        if segments.peek().is_none() && matches!(segment, b"." | b"..") && !(root.is_empty() && kept.is_empty()) {
            kept.push(b"");
        }
    }
    let mut clean = root.to_vec();
    clean.extend_from_slice(&kept.join(&b'/'));
    clean
}

/// The byte that a triplet at `at` stands for.
fn triplet(text: &[u8], at: usize) -> Option<u8> {
    let [b'%', high, low] = *text.get(at..at + 3)? else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

fn push_triplet(byte: u8, text: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    text.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// RFC 3986, section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// What may stand in a URI at all (RFC 3986, section 2), `%` included.
pub(crate) fn is_uri_character(byte: u8) -> bool {
    is_unreserved(byte) || b":/?#[]@!$&'()*+,;=%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_is_to_bytes_and_strict() {
        assert_eq!(percent_decode(b"a%2fb%FF").unwrap().as_ref(), b"a/b\xff");
        assert_eq!(percent_decode(b"a+b").unwrap().as_ref(), b"a+b");
        assert_eq!(percent_decode(b"%2541").unwrap().as_ref(), b"%41");
        for (text, offset) in [("%", 0), ("a%4", 1), ("ab%4g", 2), ("%41%+1", 3), ("%%41", 0)] {
            assert_eq!(percent_decode(text.as_bytes()), Err(PercentError { offset }), "{text}");
        }
    }

    #[test]
    fn equivalent_paths_become_one() {
        for (path, expected) in [
            ("/a/b/c/./../../g", "/a/g"),
            ("/%7eann/%2E%2e/x", "/x"),
            ("/a%2fb", "/a%2Fb"),
            ("/a//b/", "/a//b/"),
            ("//a", "//a"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/.", "/"),
            ("/", "/"),
            ("", ""),
            ("..", ""),
            ("mid/content=5/../6", "mid/6"),
            ("/...", "/..."),
            ("/a//../b", "/a/b"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz%41", "/%zzA"),
            ("/é%c3%a9", "/é%C3%A9"),
        ] {
            assert_eq!(normalise_path(path), expected, "{path}");
            assert_eq!(normalise_path(expected), expected, "again {path}");
        }
    }
}
