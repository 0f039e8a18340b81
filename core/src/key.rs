//! Idempotency keys: how a header line becomes one, how one is minted, and the time that it carries.
//!
//! Accepted is one header line: an RFC 9651 string (`"0198…"`), as the IETF draft
//! `draft-ietf-httpapi-idempotency-key-header` asks, or the bare token that Stripe's clients send.
//! Both spellings are the same key of 1 to 255 visible ASCII characters.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use uuid::{Builder, Uuid, Variant};

use crate::time::Timestamp;

/// The longest key, in characters; Stripe's limit.
pub const MAX_KEY_CHARS: usize = 255;

/// One per intent, the same on every delivery of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Why a header line is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing, or `""`.
    Empty,
    /// More than [`MAX_KEY_CHARS`] characters.
    TooLong,
    /// A byte that is no visible ASCII character, or not allowed in this spelling; its offset in the line.
    Character {
        /// The byte.
        byte: u8,
        /// Its offset.
        at: usize,
    },
    /// A quoted string without its closing quote.
    Unterminated,
    /// A backslash before something other than `"` or `\`.
    Escape {
        /// The offset of the backslash.
        at: usize,
    },
    /// More than one member, `a, b`.
    List,
    /// RFC 9651 parameters, `"a";b=1`.
    Parameters,
    /// More than one header line.
    Lines,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the key is empty; send 1 to 255 visible ASCII characters"),
            Self::TooLong => f.write_str("the key is longer than 255 characters"),
            Self::Character { byte, at } => {
                write!(f, "byte 0x{byte:02X} at offset {at} is not allowed in a key; use visible ASCII characters")
            }
            Self::Unterminated => f.write_str("the quoted key has no closing quote"),
            Self::Escape { at } => {
                write!(f, "the backslash at offset {at} escapes neither \" nor \\ (RFC 9651, section 3.3.3)")
            }
            Self::List => f.write_str("the header holds a list; send one key for one intent"),
            Self::Parameters => f.write_str("the key has parameters; send the key alone"),
            Self::Lines => f.write_str("the header stands there more than once; send one key for one intent"),
        }
    }
}

impl core::error::Error for KeyError {}

impl Key {
    /// Reads all header lines of a request: none is `None`, two are an error.
    pub fn parse_lines<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Self>, KeyError> {
        let mut lines = lines.into_iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(KeyError::Lines);
        }
        Self::parse(line).map(Some)
    }

    /// Reads one header line in either spelling.
    pub fn parse(line: &[u8]) -> Result<Self, KeyError> {
        let start = line.iter().position(|b| !matches!(b, b' ' | b'\t')).ok_or(KeyError::Empty)?;
        let end = line.iter().rposition(|b| !matches!(b, b' ' | b'\t')).map_or(start, |at| at + 1);
        let text = if line[start] == b'"' { quoted(&line[..end], start + 1)? } else { bare(&line[..end], start)? };
        match text.len() {
            0 => Err(KeyError::Empty),
            1..=MAX_KEY_CHARS => Ok(Self(text)),
            _ => Err(KeyError::TooLong),
        }
    }

    /// A new key that carries its time (UUIDv7, RFC 9562 section 5.7). `entropy` comes from a cryptographic source.
    pub fn mint(now: Timestamp, entropy: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let uuid = Builder::from_unix_timestamp_millis(millis, &entropy).into_uuid();
        // Into a buffer, because the formatting machinery is more than all else that a client needs of it.
        Self(String::from(&*uuid.hyphenated().encode_lower(&mut [0; 36])))
    }

    /// The key itself. It is a secret where the actor is anonymous: not for logs.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The time a UUIDv7 key carries, unless it lies more than `clock_skew` ahead of `now`:
    /// such a key is treated as one without a time, or a wild clock could move memory's end past today.
    pub fn time(&self, now: Timestamp, clock_skew: Duration) -> Option<Timestamp> {
        let uuid = (self.0.len() == 36).then(|| Uuid::try_parse(&self.0).ok()).flatten()?;
        if uuid.get_version_num() != 7 || uuid.get_variant() != Variant::RFC4122 {
            return None;
        }
        let millis = uuid.as_bytes()[..6].iter().fold(0_i64, |sum, byte| sum << 8 | i64::from(*byte));
        let time = Timestamp::from_millis(millis);
        (time <= now + clock_skew).then_some(time)
    }

    /// Whether a UUID stands anywhere in the key, so that no two people choose it by chance.
    pub fn contains_uuid(&self) -> bool {
        self.0.as_bytes().windows(36).any(|window| {
            window.iter().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
        })
    }
}

impl Key {
    /// Whether a UUID or a ULID stands anywhere in the key. A ULID is 26 characters of Crockford's base32 that are
    /// not part of a longer run of letters and digits; its first one is at most 7, or its time would not fit.
    pub fn contains_uuid_or_ulid(&self) -> bool {
        self.contains_uuid() || self.0.split(|c: char| !c.is_ascii_alphanumeric()).any(is_ulid)
    }
}

fn is_ulid(run: &str) -> bool {
    let crockford = |b: u8| b.is_ascii_alphanumeric() && !matches!(b.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U');
    run.len() == 26 && run.as_bytes()[0] <= b'7' && run.bytes().all(crockford)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl core::str::FromStr for Key {
    type Err = KeyError;

    /// The bare characters of a key, as [`Key::expose`] gives them; no header syntax.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        if let Some((at, byte)) = text.bytes().enumerate().find(|(_, byte)| !byte.is_ascii_graphic()) {
            return Err(KeyError::Character { byte, at });
        }
        match text.len() {
            0 => Err(KeyError::Empty),
            1..=MAX_KEY_CHARS => Ok(Self(text.into())),
            _ => Err(KeyError::TooLong),
        }
    }
}

/// The inside of an RFC 9651 string, from just behind its opening quote.
fn quoted(line: &[u8], mut at: usize) -> Result<String, KeyError> {
    let mut text = String::new();
    loop {
        let byte = *line.get(at).ok_or(KeyError::Unterminated)?;
        match byte {
            b'"' => break,
            b'\\' => match line.get(at + 1) {
                Some(escaped @ (b'"' | b'\\')) => {
                    text.push(char::from(*escaped));
                    at += 1;
                }
                _ => return Err(KeyError::Escape { at }),
            },
            byte if byte.is_ascii_graphic() => text.push(char::from(byte)),
            byte => return Err(KeyError::Character { byte, at }),
        }
        at += 1;
    }
    match line[at + 1..].iter().position(|b| !matches!(b, b' ' | b'\t')).map(|skip| at + 1 + skip) {
        None => Ok(text),
        Some(next) => Err(match line[next] {
            b';' => KeyError::Parameters,
            b',' => KeyError::List,
            byte => KeyError::Character { byte, at: next },
        }),
    }
}

fn bare(line: &[u8], start: usize) -> Result<String, KeyError> {
    let mut text = String::with_capacity(line.len() - start);
    for (at, byte) in line.iter().copied().enumerate().skip(start) {
        match byte {
            b',' => return Err(KeyError::List),
            b';' => return Err(KeyError::Parameters),
            b'"' => return Err(KeyError::Character { byte, at }),
            byte if byte.is_ascii_graphic() => text.push(char::from(byte)),
            byte => return Err(KeyError::Character { byte, at }),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEW: Duration = Duration::from_secs(300);

    fn parsed(line: &str) -> Result<String, KeyError> {
        Key::parse(line.as_bytes()).map(|key| key.expose().into())
    }

    #[test]
    fn both_spellings_are_the_same_key() {
        assert_eq!(parsed("order-17").unwrap(), parsed("\"order-17\"").unwrap());
        assert_eq!(parsed(r#""a\"b\\c""#).unwrap(), r#"a"b\c"#);
        assert_eq!(parsed(" \t k1 \t").unwrap(), "k1");
        assert_eq!(parsed("  \"k1\"  ").unwrap(), "k1");
    }

    #[test]
    fn what_is_no_key_says_why() {
        let long = "x".repeat(256);
        for (line, why) in [
            ("", KeyError::Empty),
            ("   ", KeyError::Empty),
            ("\"\"", KeyError::Empty),
            (long.as_str(), KeyError::TooLong),
            ("\"a", KeyError::Unterminated),
            ("\"", KeyError::Unterminated),
            ("\"a\\", KeyError::Escape { at: 2 }),
            ("\"a\\x\"", KeyError::Escape { at: 2 }),
            ("\"a b\"", KeyError::Character { byte: b' ', at: 2 }),
            ("a b", KeyError::Character { byte: b' ', at: 1 }),
            ("a\u{e9}", KeyError::Character { byte: 0xc3, at: 1 }),
            ("a\u{7f}", KeyError::Character { byte: 0x7f, at: 1 }),
            ("a\"b", KeyError::Character { byte: b'"', at: 1 }),
            ("\"a\"b", KeyError::Character { byte: b'b', at: 3 }),
            ("a,b", KeyError::List),
            ("\"a\", \"b\"", KeyError::List),
            ("a;b=1", KeyError::Parameters),
            ("\"a\";b=1", KeyError::Parameters),
        ] {
            assert_eq!(parsed(line), Err(why), "{line:?}");
        }
        assert_eq!(parsed(&"x".repeat(255)).unwrap().len(), 255);
        assert_eq!(Key::parse_lines([&b"a"[..], b"a"]), Err(KeyError::Lines));
        assert_eq!(Key::parse_lines([]), Ok(None));
    }

    #[test]
    fn a_minted_key_carries_its_time() {
        let now = Timestamp::from_millis(1_796_000_000_123);
        let key = Key::mint(now, [0xff; 10]);
        assert_eq!(key.expose().len(), 36);
        assert_eq!(key.time(now, SKEW), Some(now));
        assert_eq!(parsed(key.expose()).unwrap(), key.expose());
    }

    #[test]
    fn keys_without_a_trustworthy_time_have_none() {
        let now = Timestamp::from_millis(1_796_000_000_000);
        let ahead = Key::mint(now + SKEW + Duration::from_millis(1), [0; 10]);
        assert_eq!(ahead.time(now, SKEW), None);
        for text in ["order-17", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6", "x0198f81d-4fae-7dec-81d0-a76500a0c91e"] {
            assert_eq!(text.parse::<Key>().unwrap().time(now, SKEW), None, "{text}");
        }
    }

    #[test]
    fn a_uuid_is_found_anywhere_in_the_key() {
        for (text, found) in [
            ("f81d4fae-7dec-41d0-a765-00a0c91e6bf6", true),
            ("stripe-node-retry-F81D4FAE-7dec-41d0-a765-00a0c91e6bf6", true),
            ("f81d4fae7dec41d0a76500a0c91e6bf6", false),
            ("order-17", false),
        ] {
            assert_eq!(text.parse::<Key>().unwrap().contains_uuid(), found, "{text}");
        }
    }

    #[test]
    fn a_ulid_is_found_where_it_stands_alone() {
        for (text, found) in [
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", true),
            ("01arz3ndektsv4rrffq69g5fav", true),
            ("cart_01ARZ3NDEKTSV4RRFFQ69G5FAV.2", true),
            ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", true),
            ("f81d4fae-7dec-41d0-a765-00a0c91e6bf6", true),
            // A time beyond 48 bits.
            ("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", false),
            // Letters that Crockford left out.
            ("01ARZ3NDEKTSV4RRFFQ69G5FAU", false),
            ("0IARZ3NDEKTSV4RRFFQ69G5FAV", false),
            // Too short, and parts of longer runs.
            ("01ARZ3NDEKTSV4RRFFQ69G5FA", false),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAVX", false),
            ("x01ARZ3NDEKTSV4RRFFQ69G5FAV", false),
            ("order-17", false),
        ] {
            assert_eq!(text.parse::<Key>().unwrap().contains_uuid_or_ulid(), found, "{text}");
        }
    }
}
