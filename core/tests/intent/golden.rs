//! Records that a released library wrote are read for ever. The bytes below were written by format 1 and are never
//! written anew: a change that needs other bytes needs another format.

use samekey_core::intent::{Engine, Event, StoredRecord};

use crate::bench::{Bench, START, completed};
use samekey_core::intent::{Failure, Trust};

const WAITING: &str = "\
    000000012430316132323966312d323830302d373431392d613839372d63393632316361353636376400000000000000000180a0899fc5\
    6800000180d087bbc8680000808004010100000100010000000000000d6f72646572732e63726561746504504f53541b68747470733a2f\
    2f73686f702e6578616d706c652f6f726465727320f37d01b56d59b017d4596cb7743e2115e5ac4fd23a430d088087a5b03a1c03e5010c\
    636f6e74656e742d74797065106170706c69636174696f6e2f6a736f6e010d7b22736b75223a22746561227d01020080a0899fc568a8a0\
    899fc56801a0aa899fc568f809000003010200000000\
";
const DONE: &str = "\
    000000012430316132323966312d323830302d373431392d613839372d63393632316361353636376400000000000000000180a0899fc5\
    6800000180d087bbc8680001a8a0899fc568808004010000000100000001000001000d6f72646572732e63726561746504504f53541b68\
    747470733a2f2f73686f702e6578616d706c652f6f726465727320f37d01b56d59b017d4596cb7743e2115e5ac4fd23a430d088087a5b0\
    3a1c03e5000001070080a0899fc568a8a0899fc568000000010001c901020c636f6e74656e742d74797065106170706c69636174696f6e\
    2f6a736f6e0d73616d656b65792d737461746509636f6d706c65746564010b7b226964223a226f31227d00\
";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a page shows that finds these bytes.
fn shown(data: Vec<u8>) -> serde_json::Value {
    let mut engine = Engine::new(crate::bench::config(Trust::Samekey), [2; 32]).unwrap();
    engine.step(START, Event::Account { account: Some("ann".into()) });
    let record = StoredRecord { id: "i".into(), account: Some("ann".into()), revision: 3, format: 1, data };
    engine.step(START, Event::Loaded { records: vec![record] });
    serde_json::from_str(&engine.view("i").expect("it is read").to_json()).unwrap()
}

/// What is written today for the same history.
fn written(done: bool) -> Vec<u8> {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, "{\"sku\":\"tea\"}"));
    if done {
        bench.answer(completed());
    } else {
        bench.lose(Failure::Timeout);
    }
    let id = bench.ids()[0].clone();
    bench.store[&id].data.clone()
}

#[test]
fn what_format_1_wrote_is_read() {
    let waiting = shown(bytes(WAITING));
    assert_eq!(waiting["state"], "waiting");
    assert_eq!(waiting["key"], "01a229f1-2800-7419-a897-c9621ca5667d");
    assert_eq!(waiting["lastError"]["code"], "timeout");
    let done = shown(bytes(DONE));
    assert_eq!(done["state"], "done");
    assert_eq!(done["response"]["status"], 201);
}

#[test]
fn format_1_is_still_written_as_it_was() {
    assert_eq!(hex(&written(false)), hex(&bytes(WAITING)));
    assert_eq!(hex(&written(true)), hex(&bytes(DONE)));
}
