//! Strict JSON (RFC 8259, I-JSON's rule on duplicate members) and its canonical form (RFC 8785).
//!
//! A fingerprint may be taken only of a text whose meaning cannot be argued about, so the reader refuses what other
//! readers repair in different ways: duplicate members, lone surrogates, invalid UTF-8, a byte order mark.
//!
//! One deliberate difference from RFC 8785, section 3.2.2.3: numbers are never rounded to a double. The ECMAScript
//! layout is applied to the exact decimal digits of the text. For the shortest spelling of a double, which is what
//! browsers write, the result is RFC 8785 byte for byte; a longer spelling keeps what it says, so that two amounts
//! that differ in the twentieth digit are two payloads.
//!
//! ```
//! let canonical = samekey_core::json::canonical(br#"{ "b": 1.0, "a": 9007199254740993 }"#).unwrap();
//! assert_eq!(canonical, br#"{"a":9007199254740993,"b":1}"#);
//! ```

mod document;
mod error;
mod number;
mod reader;
mod string;
mod writer;

use alloc::vec::Vec;

pub(crate) use document::{Document, Elements, Members, Value, View};
pub use error::{JsonError, JsonReason};
pub(crate) use string::compare_utf16;
pub(crate) use writer::Sink;

/// Containers inside containers that are read. Recursion stays within any stack, a WASM one included.
pub const MAX_NESTING: usize = 128;

/// Writes a string as a canonical JSON text.
pub(crate) fn write_string(text: &str, sink: &mut impl Sink) {
    sink.put(b"\"");
    string::write_escaped(text.as_bytes(), sink);
    sink.put(b"\"");
}

/// The canonical form of a JSON text, or where and why it is not one.
pub fn canonical(bytes: &[u8]) -> Result<Vec<u8>, JsonError> {
    let document = Document::read(bytes)?;
    let mut canonical = Vec::with_capacity(bytes.len());
    document.root().write(&mut canonical);
    Ok(canonical)
}

#[cfg(test)]
mod tests;
