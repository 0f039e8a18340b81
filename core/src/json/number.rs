//! Exact numbers: decimal digits and an exponent, never a double.
//!
//! `1e999999999` costs as little as `1`, since an exponent is only ever compared and printed. There is no float code,
//! which keeps the WASM small.

use super::error::JsonReason;
use super::writer::Sink;

/// Where a number ends and whether it is canonical as it stands.
pub(super) struct Scanned {
    pub(super) end: usize,
    pub(super) canonical: bool,
}

/// Reads the number at `start` (RFC 8259, section 6), or says where and why it is none.
pub(super) fn scan(source: &[u8], start: usize) -> Result<Scanned, (usize, JsonReason)> {
    let negative = source.get(start) == Some(&b'-');
    let whole_at = start + usize::from(negative);
    let whole_end = digits_until(source, whole_at);
    let whole = &source[whole_at..whole_end];
    if whole.is_empty() {
        return Err(missing_digit(source, whole_at));
    }
    if whole[0] == b'0' && whole.len() > 1 {
        return Err((whole_at, JsonReason::InvalidNumber));
    }

    let mut end = whole_end;
    // Within the range that ECMAScript writes without exponent, integers stand for themselves; `-0` is `0`.
    let mut canonical = whole.len() <= 21 && !(negative && whole == b"0");
    if source.get(end) == Some(&b'.') {
        end = digits_until(source, whole_end + 1);
        let fraction = &source[whole_end + 1..end];
        match fraction.last() {
            None => return Err(missing_digit(source, end)),
            Some(last) => {
                canonical = whole.len() <= 21 && *last != b'0' && !(whole == b"0" && fraction.starts_with(b"000000"));
            }
        }
    }
    if let Some(b'e' | b'E') = source.get(end) {
        let digits_at = end + 1 + usize::from(matches!(source.get(end + 1), Some(b'+' | b'-')));
        end = digits_until(source, digits_at);
        if end == digits_at {
            return Err(missing_digit(source, digits_at));
        }
        canonical = false;
        if Decimal::read(&source[start..end]).is_none() {
            return Err((digits_at, JsonReason::ExponentTooLarge));
        }
    }
    Ok(Scanned { end, canonical })
}

fn missing_digit(source: &[u8], at: usize) -> (usize, JsonReason) {
    (at, if at < source.len() { JsonReason::InvalidNumber } else { JsonReason::UnexpectedEnd })
}

fn digits_until(source: &[u8], at: usize) -> usize {
    source[at..].iter().position(|byte| !byte.is_ascii_digit()).map_or(source.len(), |length| at + length)
}

/// A number in the one form that all its spellings share.
struct Decimal<'a> {
    negative: bool,
    /// The digits without zeros in front and behind: those before the point and those after it. None at all is zero.
    digits: [&'a [u8]; 2],
    /// The power of ten of the first digit.
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Takes the text of a valid number apart; `None` if the exponent does not fit.
    fn read(text: &'a [u8]) -> Option<Self> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let (mantissa, written) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };

        let fraction = without_trailing_zeros(fraction);
        if whole == b"0" {
            let zeros = fraction.iter().take_while(|digit| **digit == b'0').count();
            if zeros == fraction.len() {
                return Some(Self { negative: false, digits: [&[], &[]], exponent: 0 });
            }
            let exponent = written.checked_sub(i64::try_from(zeros + 1).ok()?)?;
            return Some(Self { negative, digits: [&[], &fraction[zeros..]], exponent });
        }
        let exponent = written.checked_add(i64::try_from(whole.len() - 1).ok()?)?;
        let whole = if fraction.is_empty() { without_trailing_zeros(whole) } else { whole };
        Some(Self { negative, digits: [whole, fraction], exponent })
    }

    /// Writes the layout of `Number::toString` (ECMA-262), which RFC 8785, section 3.2.2.3 asks for.
    fn write(&self, sink: &mut impl Sink) {
        const ZEROS: &[u8; 21] = &[b'0'; 21];
        let [before, after] = self.digits;
        let count = before.len() + after.len();
        if count == 0 {
            return sink.put(b"0");
        }
        if self.negative {
            sink.put(b"-");
        }
        match self.exponent {
            exponent @ -6..=-1 => {
                sink.put(b"0.");
                sink.put(&ZEROS[..(-1 - exponent) as usize]);
                self.write_digits(0, count, sink);
            }
            exponent @ 0..=20 => {
                let point = exponent as usize + 1;
                self.write_digits(0, count.min(point), sink);
                if count > point {
                    sink.put(b".");
                    self.write_digits(point, count, sink);
                } else {
                    sink.put(&ZEROS[..point - count]);
                }
            }
            exponent => {
                self.write_digits(0, 1, sink);
                if count > 1 {
                    sink.put(b".");
                    self.write_digits(1, count, sink);
                }
                sink.put(if exponent < 0 { b"e-" } else { b"e+" });
                write_decimal(exponent.unsigned_abs(), sink);
            }
        }
    }

    fn write_digits(&self, from: usize, to: usize, sink: &mut impl Sink) {
        let [before, after] = self.digits;
        let split = before.len();
        if from < split {
            sink.put(&before[from..to.min(split)]);
        }
        if to > split {
            sink.put(&after[from.max(split) - split..to - split]);
        }
    }
}

/// Writes the canonical form of a valid number.
pub(super) fn write(text: &[u8], sink: &mut impl Sink) {
    // The reader has checked the exponent; a text it has not seen is at least not lost.
    match Decimal::read(text) {
        Some(decimal) => decimal.write(sink),
        None => sink.put(text),
    }
}

/// A written exponent, summed up on the negative side, which reaches one further.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let sum = digits.iter().try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_sub(i64::from(digit - b'0')))?;
    if negative { Some(sum) } else { sum.checked_neg() }
}

fn without_trailing_zeros(digits: &[u8]) -> &[u8] {
    &digits[..digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1)]
}

fn write_decimal(mut number: u64, sink: &mut impl Sink) {
    let mut text = [0; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return sink.put(&text[at..]);
        }
    }
}
