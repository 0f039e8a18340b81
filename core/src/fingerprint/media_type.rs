//! `Content-Type` (RFC 9110, section 8.3.1), read strictly.

use alloc::string::String;
use alloc::vec::Vec;

use crate::token::is_token_character;

/// A media type whose parameters have been unquoted.
pub(super) struct MediaType {
    /// `type/subtype` in lower case.
    pub(super) essence: String,
    /// Names in lower case, values as sent.
    parameters: Vec<(String, Vec<u8>)>,
}

impl MediaType {
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let mut rest = value.trim_ascii();
        let kind = token(&mut rest)?;
        rest = rest.strip_prefix(b"/")?;
        let subtype = token(&mut rest)?;
        let mut essence = kind;
        essence.push('/');
        essence.push_str(&subtype);
        let mut parameters = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
            rest = rest.strip_prefix(b";")?.trim_ascii_start();
            // `a/b;` and `a/b;;c=d` are allowed: parameters between semicolons are optional.
            if rest.is_empty() || rest[0] == b';' {
                continue;
            }
            let name = token(&mut rest)?;
            rest = rest.strip_prefix(b"=")?;
            let parameter = value_of(&mut rest)?;
            if parameters.iter().any(|(known, _)| *known == name) {
                return None;
            }
            parameters.push((name, parameter));
        }
        Some(Self { essence, parameters })
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&[u8]> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }
}

fn split_token<'v>(rest: &mut &'v [u8]) -> Option<&'v [u8]> {
    let end = rest.iter().position(|byte| !is_token_character(*byte)).unwrap_or(rest.len());
    let (token, after) = rest.split_at(end);
    *rest = after;
    (!token.is_empty()).then_some(token)
}

/// A token in lower case.
fn token(rest: &mut &[u8]) -> Option<String> {
    split_token(rest).map(|token| token.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
}

/// A token or a quoted string.
fn value_of(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let Some(mut quoted) = rest.strip_prefix(b"\"") else {
        return split_token(rest).map(<[u8]>::to_vec);
    };
    let mut value = Vec::new();
    loop {
        match quoted {
            [b'"', after @ ..] => {
                *rest = after;
                return Some(value);
            }
            [b'\\', byte, after @ ..] => {
                value.push(*byte);
                quoted = after;
            }
            [] | [b'\\'] => return None,
            [byte, after @ ..] => {
                value.push(*byte);
                quoted = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_white_space_do_not_count() {
        let media_type = MediaType::parse(b"  Application/JSON ; Charset=\"UTF-8\" ;; a=b; ").unwrap();
        assert_eq!(media_type.essence, "application/json");
        assert_eq!(media_type.parameter("charset"), Some(&b"UTF-8"[..]));
        assert_eq!(media_type.parameter("a"), Some(&b"b"[..]));
        let quoted = MediaType::parse(br#"multipart/form-data; boundary="a \"b\\""#).unwrap();
        assert_eq!(quoted.parameter("boundary"), Some(&br#"a "b\"#[..]));
    }

    #[test]
    fn what_is_no_media_type_is_refused() {
        for value in [
            "",
            "json",
            "/json",
            "a/",
            "a/b c",
            "a/b, a/b",
            "a/b; c",
            "a/b; c=",
            "a/b; c=\"d",
            "a/b; c=\"d\\",
            "a/b; c=d; C=e",
            "a/b; c=\"d\"e",
        ] {
            assert!(MediaType::parse(value.as_bytes()).is_none(), "{value}");
        }
    }
}
