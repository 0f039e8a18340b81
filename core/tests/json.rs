//! Laws of the canonical form, over values and texts that nobody thought of.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // linear time can only be seen on a clock

use std::time::{Duration, Instant};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use samekey_core::json::canonical;

/// A value with its numbers as exact text.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    /// Sign, digits without outer zeros (empty is zero), power of ten of the last digit.
    Number(bool, String, i64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn json() -> impl Strategy<Value = Json> {
    let digits = prop_oneof![Just(String::new()), "[1-9]", "[1-9][0-9]{0,24}[1-9]"];
    let number = (any::<bool>(), digits, -40_i64..40).prop_map(|(negative, digits, power)| match digits.is_empty() {
        true => Json::Number(false, digits, 0),
        false => Json::Number(negative, digits, power),
    });
    let text = prop_oneof![any::<String>(), "[a-c\u{e000}😂\"\\\\\n/]{0,10}"];
    let scalar =
        prop_oneof![Just(Json::Null), any::<bool>().prop_map(Json::Bool), number, text.clone().prop_map(Json::Text)];
    scalar.prop_recursive(5, 60, 8, move |inner| {
        let members = btree_map(text.clone(), inner.clone(), 0..8);
        prop_oneof![
            vec(inner, 0..8).prop_map(Json::Array),
            members.prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Makes the choices a sender is free to make.
struct Speller(u64);

impl Speller {
    fn choose(&mut self, of: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % of
    }

    fn space(&mut self, text: &mut String) {
        for _ in 0..self.choose(3) {
            text.push([' ', '\n', '\r', '\t'][self.choose(4) as usize]);
        }
    }

    fn string(&mut self, value: &str, text: &mut String) {
        text.push('"');
        for character in value.chars() {
            let must = character < ' ' || matches!(character, '"' | '\\');
            if must || self.choose(6) == 0 {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    text.push_str(&if self.choose(2) == 0 {
                        format!("\\u{unit:04x}")
                    } else {
                        format!("\\u{unit:04X}")
                    });
                }
            } else if character == '/' && self.choose(2) == 0 {
                text.push_str("\\/");
            } else {
                text.push(character);
            }
        }
        text.push('"');
    }

    /// Writes digits × 10^power in any of its spellings.
    fn number(&mut self, negative: bool, digits: &str, power: i64, text: &mut String) {
        let mut digits = if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
        let mut power = power;
        for _ in 0..self.choose(3) {
            digits.push('0');
            power -= 1;
        }
        // Put the point somewhere, with zeros in front where it needs them.
        let fraction = self.choose(digits.len() as u64 + 3) as usize;
        if digits == "0" || fraction >= digits.len() {
            digits.insert_str(0, &"0".repeat((fraction + 1).saturating_sub(digits.len())));
        }
        let (whole, fraction) = digits.split_at(digits.len() - fraction);
        power += fraction.len() as i64;
        let whole = whole.trim_start_matches('0');
        text.push_str(if negative || (digits.trim_matches('0').is_empty() && self.choose(2) == 0) { "-" } else { "" });
        text.push_str(if whole.is_empty() { "0" } else { whole });
        if !fraction.is_empty() {
            text.push('.');
            text.push_str(fraction);
        }
        if power != 0 || self.choose(2) == 0 {
            text.push(if self.choose(2) == 0 { 'e' } else { 'E' });
            text.push_str(if power < 0 { "-" } else { ["", "+"][self.choose(2) as usize] });
            text.push_str(["", "0", "00"][self.choose(3) as usize]);
            text.push_str(&power.unsigned_abs().to_string());
        }
    }

    fn value(&mut self, value: &Json, text: &mut String) {
        self.space(text);
        match value {
            Json::Null => text.push_str("null"),
            Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Json::Number(negative, digits, power) => self.number(*negative, digits, *power, text),
            Json::Text(value) => self.string(value, text),
            Json::Array(elements) => {
                text.push('[');
                for (index, element) in elements.iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    self.value(element, text);
                }
                text.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for index in (1..members.len()).rev() {
                    members.swap(index, self.choose(index as u64 + 1) as usize);
                }
                text.push('{');
                self.space(text);
                for (index, (name, value)) in members.into_iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    self.space(text);
                    self.string(name, text);
                    self.space(text);
                    text.push(':');
                    self.value(value, text);
                }
                text.push('}');
            }
        }
        self.space(text);
    }
}

fn spell(value: &Json, seed: u64) -> String {
    let mut text = String::new();
    Speller(seed).value(value, &mut text);
    text
}

proptest! {
    #[test]
    fn every_spelling_of_a_value_has_one_canonical_form(value in json(), one in any::<u64>(), other in any::<u64>()) {
        let first = canonical(spell(&value, one).as_bytes()).unwrap();
        prop_assert_eq!(&canonical(spell(&value, other).as_bytes()).unwrap(), &first);
        prop_assert_eq!(&canonical(&first).unwrap(), &first);
    }

    #[test]
    fn different_values_have_different_canonical_forms(a in json(), b in json(), seed in any::<u64>()) {
        let (first, second) = (canonical(spell(&a, seed).as_bytes()), canonical(spell(&b, seed).as_bytes()));
        prop_assert_eq!(first == second, a == b);
    }

    #[test]
    fn serde_json_reads_the_same_from_the_canonical_form(value in json(), seed in any::<u64>()) {
        let text = spell(&value, seed);
        let canonical = canonical(text.as_bytes()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert!(alike(&serde_json::from_slice(&canonical).unwrap(), &expected));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        agrees_with_serde_json(&bytes);
    }

    #[test]
    fn any_text_near_json_is_read_or_refused(text in "[\\[\\]{}:,\"\\\\u0-9a-f.eE+ \n\u{e9}-]{0,60}") {
        agrees_with_serde_json(text.as_bytes());
    }

    #[test]
    fn a_damaged_text_is_read_or_refused(value in json(), seed in any::<u64>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = spell(&value, seed).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        agrees_with_serde_json(&bytes);
        bytes.truncate(at);
        agrees_with_serde_json(&bytes);
    }
}

/// The same value, as far as a reader can tell that rounds numbers, and not always to the nearest double.
fn alike(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Number(a), Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 1e-15
        }
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Object(a), Object(b)) => {
            let same = |(a, b): ((&String, _), (&String, _))| a.0 == b.0 && alike(a.1, b.1);
            a.len() == b.len() && a.iter().zip(b).all(same)
        }
        (a, b) => a == b,
    }
}

/// What this reader accepts `serde_json` accepts with the same meaning, but for numbers a double cannot hold.
fn agrees_with_serde_json(bytes: &[u8]) {
    let theirs = serde_json::from_slice::<serde_json::Value>(bytes);
    match canonical(bytes) {
        Ok(ours) => match theirs {
            Ok(theirs) => assert!(alike(&serde_json::from_slice(&ours).unwrap(), &theirs), "{bytes:?}"),
            Err(error) => assert!(error.to_string().starts_with("number out of range"), "{error}: {bytes:?}"),
        },
        Err(error) => {
            assert!(error.offset <= bytes.len());
            // It takes the last of duplicate members; everything else that is refused here is refused there.
            let reason = samekey_core::json::JsonReason::DuplicateMember;
            assert!(
                theirs.is_err()
                    || error.reason == reason
                    || error.reason == samekey_core::json::JsonReason::ExponentTooLarge,
                "{error}: {bytes:?}"
            );
        }
    }
}

#[test]
fn time_is_linear_in_the_length() {
    let repeat = |unit: &str, times: usize| unit.repeat(times);
    let numbered = |times: usize| {
        (0..times).map(|n| format!("\"{}{}\":0", "k".repeat(40), (n * 7919) % 1_000_003)).collect::<Vec<_>>().join(",")
    };
    type Input = Box<dyn Fn(usize) -> String>;
    let inputs: [(&str, Input); 9] = [
        ("digits", Box::new(move |n| repeat("7", n * 20))),
        ("zeros", Box::new(move |n| format!("1{}", repeat("0", n * 20)))),
        ("fraction", Box::new(move |n| format!("0.{}1", repeat("0", n * 20)))),
        ("exponents", Box::new(move |n| format!("[{}0]", repeat("1e999999999,", n)))),
        ("elements", Box::new(move |n| format!("[{}0]", repeat("1,", n * 10)))),
        (
            "nested",
            Box::new(move |n| {
                format!("[{}0]", repeat(&format!("{}0{},", "{\"a\":[".repeat(60), "]}".repeat(60)), n / 60))
            }),
        ),
        ("escapes", Box::new(move |n| format!("\"{}\"", repeat("\\u00e9\\n", n * 3)))),
        ("names with a common start", Box::new(move |n| format!("{{{}}}", numbered(n / 2)))),
        ("unclosed", Box::new(move |n| repeat("[{\"a\":", n))),
    ];
    for (name, input) in inputs {
        let (small, large) = (input(4_000), input(40_000));
        // Ten times the input; sorting and cold caches cost a little more, a quadratic step would cost a hundred times.
        // On a busy machine a measurement may fail, but not each of them.
        let linear = |_| time(&large) < time(&small) * 40 + Duration::from_millis(5);
        assert!((0..10).any(linear), "{name}");
    }
}

fn time(text: &str) -> Duration {
    let start = Instant::now();
    let _ = std::hint::black_box(canonical(text.as_bytes()));
    start.elapsed()
}
