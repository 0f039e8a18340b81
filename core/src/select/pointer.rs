//! RFC 6901 pointers with `*`, and which of a list of them match so far.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{SelectError, SelectReason};

/// A pointer taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) text: String,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// `*`
    Each,
    /// A name, and the index it is where it meets an array (RFC 6901, section 4: no leading zeros).
    Named { name: String, index: Option<usize> },
}

/// A step into a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<'t> {
    Member(&'t [u8]),
    Element(usize),
}

impl Pointer {
    pub(crate) fn parse(text: &str) -> Result<Self, SelectError> {
        let fail = |reason| SelectError { entry: text.to_owned(), reason };
        if text.is_empty() {
            return Ok(Self { text: String::new(), segments: Vec::new() });
        }
        let path = text.strip_prefix('/').ok_or_else(|| fail(SelectReason::NoSlash))?;
        let segments = path.split('/').map(Segment::parse).collect::<Option<Vec<_>>>();
        let segments = segments.ok_or_else(|| fail(SelectReason::InvalidEscape))?;
        Ok(Self { text: text.to_owned(), segments })
    }
}

impl Segment {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Each);
        }
        let name = unescape(text)?;
        let digits = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        let index = name.parse().ok().filter(|_| digits);
        Some(Self::Named { name, index })
    }

    pub(crate) fn matches(&self, token: Token<'_>) -> bool {
        match (self, token) {
            (Self::Each, _) => true,
            (Self::Named { name, .. }, Token::Member(member)) => name.as_bytes() == member,
            (Self::Named { index, .. }, Token::Element(element)) => *index == Some(element),
        }
    }
}

fn unescape(segment: &str) -> Option<String> {
    let mut name = String::with_capacity(segment.len());
    let mut parts = segment.split('~');
    name.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (escaped, rest) = match (part.strip_prefix('0'), part.strip_prefix('1')) {
            (Some(rest), _) => ('~', rest),
            (_, Some(rest)) => ('/', rest),
            _ => return None,
        };
        name.push(escaped);
        name.push_str(rest);
    }
    Some(name)
}

/// Appends a step to a concrete pointer.
pub(crate) fn push(path: &mut String, token: Token<'_>) {
    path.push('/');
    match token {
        Token::Element(index) => path.push_str(&index.to_string()),
        Token::Member(name) => {
            for character in String::from_utf8_lossy(name).chars() {
                match character {
                    '~' => path.push_str("~0"),
                    '/' => path.push_str("~1"),
                    other => path.push(other),
                }
            }
        }
    }
}

/// Which pointers of a list match the path walked so far: one bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matching {
    pointers: u64,
    depth: usize,
}

/// What a step leads to.
pub(crate) struct Step {
    /// A pointer ends exactly here.
    pub(crate) found: bool,
    /// Those that go on from here.
    pub(crate) onward: Matching,
}

/// The start of a walk, where every pointer matches.
pub(crate) fn matching(pointers: &[Pointer]) -> Matching {
    let bits = u32::try_from(pointers.len()).unwrap_or(u32::MAX);
    Matching { pointers: 1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1), depth: 0 }
}

impl Matching {
    pub(crate) fn is_none(self) -> bool {
        self.pointers == 0
    }

    pub(crate) fn step(self, pointers: &[Pointer], token: Token<'_>) -> Step {
        let mut found = false;
        let mut onward = 0;
        let mut left = self.pointers;
        while left != 0 {
            let number = left.trailing_zeros();
            left &= left - 1;
            let segments = &pointers[number as usize].segments;
            if segments.get(self.depth).is_some_and(|segment| segment.matches(token)) {
                if segments.len() == self.depth + 1 {
                    found = true;
                } else {
                    onward |= 1 << number;
                }
            }
        }
        Step { found, onward: Self { pointers: onward, depth: self.depth + 1 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let pointer = Pointer::parse(text).unwrap();
        let name = |segment: &Segment| match segment {
            Segment::Each => "*".to_owned(),
            Segment::Named { name, .. } => name.clone(),
        };
        pointer.segments.iter().map(name).collect()
    }

    #[test]
    fn the_examples_of_rfc_6901_section_5() {
        assert_eq!(names(""), [""; 0]);
        assert_eq!(names("/foo/0"), ["foo", "0"]);
        assert_eq!(names("/"), [""]);
        assert_eq!(names("/a~1b"), ["a/b"]);
        assert_eq!(names("/c%d"), ["c%d"]);
        assert_eq!(names("/m~0n"), ["m~n"]);
        assert_eq!(names("/~01"), ["~1"]);
    }

    #[test]
    fn a_pointer_that_is_none_is_named_with_the_reason() {
        for (text, reason) in [
            ("ui", SelectReason::NoSlash),
            ("/a~", SelectReason::InvalidEscape),
            ("/a~2b", SelectReason::InvalidEscape),
        ] {
            assert_eq!(Pointer::parse(text), Err(SelectError { entry: text.to_owned(), reason }));
        }
    }

    #[test]
    fn an_index_has_no_leading_zeros_and_a_member_may() {
        let segment = Segment::parse("01").unwrap();
        assert!(!segment.matches(Token::Element(1)));
        assert!(segment.matches(Token::Member(b"01")));
        assert!(Segment::parse("1").unwrap().matches(Token::Element(1)));
        assert!(!Segment::parse("+1").unwrap().matches(Token::Element(1)));
        assert!(!Segment::parse("-").unwrap().matches(Token::Element(0)));
    }

    #[test]
    fn sixty_four_pointers_fit() {
        let pointers: Vec<_> = (0..64).map(|n| Pointer::parse(&alloc::format!("/{n}")).unwrap()).collect();
        assert!(matching(&pointers).step(&pointers, Token::Element(63)).found);
        assert!(matching(&pointers[..1]).step(&pointers, Token::Element(0)).found);
        assert!(!matching(&pointers[..1]).step(&pointers, Token::Element(1)).found);
        assert!(matching(&[]).is_none());
    }
}
