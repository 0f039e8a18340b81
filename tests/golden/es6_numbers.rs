//! The number sequence published with the reference implementations of RFC 8785: edge cases, 2,000 doubles in a row,
//! then what a SHA-256 chain over 32 zero bytes yields. Lines are `<bits in hex>,<ECMAScript spelling>`.
//!
//! The spellings are made here from Rust's shortest digits, by code that shares nothing with the canonical writer, and
//! proven by the published checksums. Then the canonical form of each must be itself.

use samekey_core::json::canonical;
use sha2::{Digest, Sha256};

const CHECKSUMS: [(usize, &str); 3] = [
    (1_000, "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687"),
    (10_000, "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892"),
    (100_000, "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7"),
];

#[test]
fn a_hundred_thousand_published_numbers_are_their_own_canonical_form() {
    let mut lines = Sha256::new();
    let mut expected = CHECKSUMS.into_iter().peekable();
    for (number, value) in sequence().take(100_000).enumerate() {
        let text = ecmascript(value);
        lines.update(format!("{:x},{text}\n", value.to_bits()));
        if let Some((_, checksum)) = expected.next_if(|(count, _)| *count == number + 1) {
            assert_eq!(hex(&lines.clone().finalize()), checksum, "the first {} lines", number + 1);
        }
        for spelling in [&text, &shortest(value)] {
            assert_eq!(canonical(spelling.as_bytes()).as_deref(), Ok(text.as_bytes()), "{spelling}");
        }
    }
    assert_eq!(expected.next(), None);
}

fn sequence() -> impl Iterator<Item = f64> {
    let in_a_row = (0..2_000).map(|n| f64::from_bits(0x0010_0000_0000_0000 + n));
    edge_cases().into_iter().chain(in_a_row).chain(chain())
}

fn edge_cases() -> Vec<f64> {
    let (mut all, mut twice) = (Vec::new(), None);
    for line in include_str!("es6_edge_cases.txt").lines().filter(|line| !line.starts_with('#')) {
        match line {
            "± begin" => twice = Some(all.len()),
            "± end" => {
                let positive = all.split_off(twice.take().expect("a block has a beginning"));
                all.extend(positive.iter().map(|value: &f64| -value));
                all.extend(positive);
            }
            values => all.extend(values.split(' ').map(|value| value.parse::<f64>().expect("a double"))),
        }
    }
    all
}

fn chain() -> impl Iterator<Item = f64> {
    let blocks = std::iter::successors(Some([0_u8; 32]), |block| Some(Sha256::digest(block).into())).skip(1);
    let doubles = |block: [u8; 32]| {
        let double = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        block.chunks_exact(8).map(double).collect::<Vec<_>>()
    };
    blocks.flat_map(doubles).filter(|value| value.is_finite() && *value != 0.0)
}

/// The fewest digits that read back as the value and, of those, the nearest to it.
fn shortest(value: f64) -> String {
    let shortest = format!("{value:e}");
    let digits = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    // Rust takes the greater one of two that are equally near, ECMAScript the even one.
    let nearest = format!("{value:.*e}", digits - 1);
    if nearest.parse() == Ok(value) { nearest } else { shortest }
}

/// `Number::toString` (ECMA-262).
fn ecmascript(value: f64) -> String {
    let scientific = shortest(value.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation");
    let exponent: i32 = exponent.parse().expect("an exponent");
    let digits = mantissa.replace('.', "");
    let sign = if value < 0.0 { "-" } else { "" };
    let magnitude = match exponent {
        _ if value == 0.0 => "0".to_owned(),
        -6..0 => format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize)),
        0..21 => {
            let point = exponent as usize + 1;
            if digits.len() > point {
                format!("{}.{}", &digits[..point], &digits[point..])
            } else {
                format!("{digits:0<point$}")
            }
        }
        _ => format!("{mantissa}e{exponent:+}"),
    };
    format!("{sign}{magnitude}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
