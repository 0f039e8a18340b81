//! What an order costs to canonicalise and to fingerprint, beside the same order through `serde_json`.
//!
//! `cargo run --release -p samekey-core --example figures`
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)] // it measures, and prints what it measured

use std::hint::black_box;
use std::time::Instant;

use samekey_core::fingerprint::{Payload, fingerprint};
use samekey_core::json::canonical;
use samekey_core::select::{Profile, Significant};

/// 905 bytes, members in the order of a program rather than of the alphabet.
const ORDER: &str = include_str!("order.json");

fn main() {
    let order = ORDER.trim_end().as_bytes();
    let payload = Payload { content_type: Some(b"application/json"), body: order, ..Payload::default() };
    let whole = Profile::default();
    let exclude = Profile::new(None, Significant::exclude(["/ui", "/items/*/note"])).expect("valid pointers");
    let include =
        Profile::new(None, Significant::include(["/customer/id", "/items/*/sku", "/total"])).expect("valid pointers");

    println!("an order of {} bytes, fastest of 50 rounds:", order.len());
    report("serde_json: Value and to_string", || {
        let value: serde_json::Value = serde_json::from_slice(black_box(order)).expect("valid JSON");
        value.to_string().len()
    });
    report("canonical form", || canonical(black_box(order)).expect("valid JSON").len());
    report("fingerprint", || fingerprint(black_box(&payload), &whole).kind() as usize);
    report("fingerprint, two pointers excluded", || fingerprint(black_box(&payload), &exclude).kind() as usize);
    report("fingerprint, three pointers included", || fingerprint(black_box(&payload), &include).kind() as usize);
}

fn report(name: &str, work: impl Fn() -> usize) {
    const RUNS: u32 = 2_000;
    let round = || {
        let start = Instant::now();
        for _ in 0..RUNS {
            black_box(work());
        }
        start.elapsed() / RUNS
    };
    let fastest = (0..50).map(|_| round()).min().expect("rounds");
    println!("{name:40} {:6.2} µs", fastest.as_nanos() as f64 / 1000.0);
}
