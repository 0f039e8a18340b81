//! What crosses the border: values one after the other, each a byte that says what it is, and what follows it.
//!
//! `0` nothing; `1` a whole number, LEB128; `2` a text and `3` bytes, their length in front; `4` a list of texts, their
//! count in front. `js/frame.ts` is the other side.

use alloc::string::String;
use alloc::vec::Vec;

const NOTHING: u8 = 0;
const NUMBER: u8 = 1;
const TEXT: u8 = 2;
const BYTES: u8 = 3;
const LIST: u8 = 4;

/// Takes values in their order. One that is missing or of another kind reads as nothing: both sides of the border are
/// of one build, so that this cannot be without a mistake that every test would show.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(frame: &'a [u8]) -> Self {
        Self(frame)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    #[inline(never)]
    fn leb(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 127) << (shift & 63);
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    }

    #[inline(never)]
    fn raw(&mut self) -> &'a [u8] {
        let length = (self.leb() as usize).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    #[inline(never)]
    pub(crate) fn number(&mut self) -> Option<u64> {
        (self.byte() == NUMBER).then(|| self.leb())
    }

    pub(crate) fn count(&mut self) -> u32 {
        self.number().unwrap_or(0) as u32
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.count() == 1
    }

    #[inline(never)]
    pub(crate) fn bytes(&mut self) -> Option<Vec<u8>> {
        matches!(self.byte(), TEXT | BYTES).then(|| self.raw().into())
    }

    #[inline(never)]
    pub(crate) fn maybe(&mut self) -> Option<String> {
        self.bytes().and_then(|bytes| String::from_utf8(bytes).ok())
    }

    #[inline(never)]
    pub(crate) fn text(&mut self) -> String {
        self.maybe().unwrap_or_default()
    }

    #[inline(never)]
    pub(crate) fn list(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        if self.byte() == LIST {
            for _ in 0..self.leb() {
                texts.push(String::from_utf8(self.raw().into()).unwrap_or_default());
            }
        }
        texts
    }

    /// A list in which names and values take turns.
    pub(crate) fn pairs(&mut self) -> Vec<(String, String)> {
        let mut texts = self.list().into_iter();
        let mut pairs = Vec::new();
        while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            pairs.push((name, value));
        }
        pairs
    }
}

/// Appends values.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    #[inline(never)]
    fn leb(&mut self, mut value: u64) {
        while value > 127 {
            self.0.push(value as u8 | 128);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    #[inline(never)]
    fn raw(&mut self, bytes: &[u8]) {
        self.leb(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn nothing(&mut self) {
        self.0.push(NOTHING);
    }

    #[inline(never)]
    pub(crate) fn number(&mut self, value: u64) {
        self.0.push(NUMBER);
        self.leb(value);
    }

    #[inline(never)]
    pub(crate) fn text(&mut self, text: &str) {
        self.0.push(TEXT);
        self.raw(text.as_bytes());
    }

    pub(crate) fn maybe(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.nothing(),
        }
    }

    #[inline(never)]
    pub(crate) fn bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.0.push(BYTES);
                self.raw(bytes);
            }
            None => self.nothing(),
        }
    }

    #[inline(never)]
    pub(crate) fn list(&mut self, texts: &[&str]) {
        self.0.push(LIST);
        self.leb(texts.len() as u64);
        for text in texts {
            self.raw(text.as_bytes());
        }
    }
}
