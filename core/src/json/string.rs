//! Strings: where they end, what their escapes mean, how they are ordered and written.

use core::cmp::Ordering;

use alloc::vec::Vec;

use super::error::JsonReason;
use super::writer::Sink;

/// The first byte at or after `at` that a string cannot just contain: `"`, `\` or a control character.
#[inline]
pub(super) fn plain_until(source: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Eight bytes at a time: a byte's high bit is set where it is below a bound or equals a value. A borrow can only
    // disturb the bytes after the first hit, and the first is all that is asked for.
    while let Some(chunk) = source.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        let hits = ((word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash))
            & HIGH;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = source.get(at) {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            break;
        }
        at += 1;
    }
    at
}

/// Decodes the escape whose backslash is at `at`; gives the offset after it, or where and why it is none.
pub(super) fn unescape(source: &[u8], at: usize, decoded: &mut Vec<u8>) -> Result<usize, (usize, JsonReason)> {
    let byte = match source.get(at + 1) {
        None => return Err((source.len(), JsonReason::UnexpectedEnd)),
        Some(b'u') => return unescape_unicode(source, at, decoded),
        Some(b'b') => 0x08,
        Some(b't') => b'\t',
        Some(b'n') => b'\n',
        Some(b'f') => 0x0c,
        Some(b'r') => b'\r',
        Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
        Some(_) => return Err((at, JsonReason::InvalidEscape)),
    };
    decoded.push(byte);
    Ok(at + 2)
}

fn unescape_unicode(source: &[u8], at: usize, decoded: &mut Vec<u8>) -> Result<usize, (usize, JsonReason)> {
    let unit = code_unit(source, at).ok_or((at, JsonReason::InvalidEscape))?;
    let (code, end) = match unit {
        0xd800..=0xdbff => match code_unit(source, at + 6) {
            Some(low @ 0xdc00..=0xdfff) => (0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00), at + 12),
            _ => return Err((at, JsonReason::LoneSurrogate)),
        },
        _ => (unit, at + 6),
    };
    let character = char::from_u32(code).ok_or((at, JsonReason::LoneSurrogate))?;
    decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(end)
}

/// The code unit that a whole `\uXXXX` at `at` names.
fn code_unit(source: &[u8], at: usize) -> Option<u32> {
    let [b'\\', b'u', digits @ ..] = source.get(at..at + 6)? else {
        return None;
    };
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}

/// Orders names by their UTF-16 code units (RFC 8785, section 3.2.3) without encoding them so.
///
/// UTF-8 bytes order by code point. UTF-16 differs in one case: a supplementary character starts with a surrogate
/// (D800 to DBFF) and so comes before U+E000 to U+FFFF. Their first bytes in UTF-8 are F0 to F4, and EE or EF.
pub(crate) fn compare_utf16(a: &[u8], b: &[u8]) -> Ordering {
    match a.iter().zip(b).find(|(x, y)| x != y) {
        None => a.len().cmp(&b.len()),
        Some((0xf0.., 0xee | 0xef)) => Ordering::Less,
        Some((0xee | 0xef, 0xf0..)) => Ordering::Greater,
        Some((x, y)) => x.cmp(y),
    }
}

/// The first eight bytes of a name as a number that orders like [`compare_utf16`]; equal ones are yet to be compared.
#[inline]
pub(super) fn sort_prefix(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text[..length]);
    let prefix = u64::from_be_bytes(bytes);
    if prefix & 0x8080_8080_8080_8080 == 0 {
        return prefix;
    }
    // U+E000 to U+FFFF move behind the supplementary characters.
    u64::from_be_bytes(bytes.map(|byte| if matches!(byte, 0xee | 0xef) { byte | 0x10 } else { byte }))
}

/// Writes the inside of a string with the escapes of RFC 8785, section 3.2.2.2.
pub(super) fn write_escaped(text: &[u8], sink: &mut impl Sink) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut at = 0;
    while at < text.len() {
        let end = plain_until(text, at);
        sink.put(&text[at..end]);
        let Some(&byte) = text.get(end) else { break };
        match byte {
            0x08 => sink.put(b"\\b"),
            b'\t' => sink.put(b"\\t"),
            b'\n' => sink.put(b"\\n"),
            0x0c => sink.put(b"\\f"),
            b'\r' => sink.put(b"\\r"),
            b'"' => sink.put(b"\\\""),
            b'\\' => sink.put(b"\\\\"),
            control => sink.put(&[b'\\', b'u', b'0', b'0', b'0' + (control >> 4), HEX[usize::from(control & 15)]]),
        }
        at = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_at_the_first_byte_it_cannot_contain_at_every_offset() {
        for stop in [b'"', b'\\', 0x00, 0x1f] {
            for length in 0..40 {
                let mut text = alloc::vec![b'x'; length];
                text.extend_from_slice(&[0xff, 0x80, 0x7f, 0x20, b'!', b'#', b'[', b']', stop, b'"', 0]);
                assert_eq!(plain_until(&text, 0), length + 8, "stop {stop:#x} after {length}");
            }
        }
        assert_eq!(plain_until(b"abc", 0), 3);
        assert_eq!(plain_until(b"", 0), 0);
    }

    #[test]
    fn names_are_ordered_as_utf16_orders_them() {
        let names = [
            "",
            "\u{0}",
            "a",
            "ab",
            "\u{7f}",
            "é",
            "\u{d7ff}",
            "\u{e000}",
            "\u{ffff}",
            "😂",
            "\u{10ffff}",
            "a😂",
            "a\u{fb33}",
        ];
        for a in names {
            for b in names {
                let expected = a.encode_utf16().cmp(b.encode_utf16());
                assert_eq!(compare_utf16(a.as_bytes(), b.as_bytes()), expected, "{a:?} {b:?}");
            }
        }
    }
}
