//! Reads a text into a [`Document`], or says where and why it is not strict JSON.

use core::cmp::Ordering;

use alloc::vec::Vec;

use super::document::{self, Document, Node, NodeKind};
use super::error::{JsonError, JsonReason};
use super::string::{compare_utf16, plain_until, sort_prefix, unescape};
use super::{MAX_NESTING, number};

impl<'a> Document<'a> {
    /// Reads the whole of a text, in time linear in its length (but for sorting the members of an object).
    pub(crate) fn read(source: &'a [u8]) -> Result<Self, JsonError> {
        let fail = |offset, reason| Err(JsonError { offset, reason });
        if u32::try_from(source.len()).is_err() {
            return fail(0, JsonReason::TooLong);
        }
        if source.starts_with(b"\xef\xbb\xbf") {
            return fail(0, JsonReason::ByteOrderMark);
        }
        if let Err(error) = core::str::from_utf8(source) {
            return fail(error.valid_up_to(), JsonReason::InvalidUtf8);
        }

        let document = Document {
            source,
            // About what an order needs; a list of digits grows to a node for every second byte.
            nodes: Vec::with_capacity(source.len() / 6 + 1),
            order: Vec::new(),
            decoded: Vec::new(),
            decoded_ends: Vec::new(),
        };
        let mut reader = Reader { document, at: 0, names: Vec::new() };
        reader.skip_space();
        reader.value(0)?;
        reader.skip_space();
        if reader.at < source.len() {
            return fail(reader.at, JsonReason::TrailingBytes);
        }
        Ok(reader.document)
    }
}

struct Reader<'a> {
    document: Document<'a>,
    at: usize,
    /// Scratch space for sorting names: the start of each, and its node.
    names: Vec<(u64, u32)>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.document.source.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn fail<T>(&self, offset: usize, reason: JsonReason) -> Result<T, JsonError> {
        Err(JsonError { offset, reason })
    }

    fn unexpected<T>(&self) -> Result<T, JsonError> {
        self.fail(self.at, self.peek().map_or(JsonReason::UnexpectedEnd, JsonReason::UnexpectedByte))
    }

    fn push(&mut self, kind: NodeKind, start: usize, len: usize) {
        // No longer than the text, whose length was checked.
        self.document.nodes.push(Node { kind, start: start as u32, len: len as u32 });
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{' | b'[') if depth == MAX_NESTING => self.fail(self.at, JsonReason::TooDeep),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'n') => self.literal(b"null"),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            _ => self.unexpected(),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), JsonError> {
        let start = self.at;
        for expected in word {
            if self.peek() != Some(*expected) {
                return self.unexpected();
            }
            self.at += 1;
        }
        self.push(NodeKind::Verbatim, start, word.len());
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        match number::scan(self.document.source, start) {
            Err((offset, reason)) => self.fail(offset, reason),
            Ok(scanned) => {
                let kind = if scanned.canonical { NodeKind::Verbatim } else { NodeKind::Number };
                self.push(kind, start, scanned.end - start);
                self.at = scanned.end;
                Ok(())
            }
        }
    }

    fn string(&mut self) -> Result<(), JsonError> {
        let start = self.at + 1;
        let end = plain_until(self.document.source, start);
        if self.document.source.get(end) == Some(&b'"') {
            self.push(NodeKind::Plain, start, end - start);
            self.at = end + 1;
            return Ok(());
        }
        self.decode(start, end)
    }

    /// Reads the rest of a string that is not plain; `end` is the first byte that is not.
    fn decode(&mut self, start: usize, mut end: usize) -> Result<(), JsonError> {
        let source = self.document.source;
        let mut from = start;
        loop {
            self.document.decoded.extend_from_slice(&source[from..end]);
            match source.get(end) {
                Some(b'"') => break,
                Some(b'\\') => match unescape(source, end, &mut self.document.decoded) {
                    Ok(after) => from = after,
                    Err((offset, reason)) => return self.fail(offset, reason),
                },
                Some(_) => return self.fail(end, JsonReason::ControlCharacter),
                None => return self.fail(end, JsonReason::UnexpectedEnd),
            }
            end = plain_until(source, from);
        }
        self.push(NodeKind::Decoded, start, self.document.decoded_ends.len());
        self.document.decoded_ends.push(self.document.decoded.len() as u32);
        self.at = end + 1;
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonError> {
        let open = self.document.nodes.len();
        self.push(NodeKind::Array, self.at, 0);
        self.at += 1;
        self.skip_space();
        if self.peek() != Some(b']') {
            loop {
                self.value(depth)?;
                self.skip_space();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break,
                    _ => return self.unexpected(),
                }
                self.skip_space();
            }
        }
        self.at += 1;
        self.document.nodes[open].len = self.document.nodes.len() as u32;
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonError> {
        let open = self.document.nodes.len();
        self.push(NodeKind::Object, self.at, 0);
        self.at += 1;
        self.skip_space();
        let mut last = None;
        let mut sorted = true;
        if self.peek() != Some(b'}') {
            loop {
                let name = self.document.nodes.len();
                if self.peek() != Some(b'"') {
                    return self.unexpected();
                }
                self.string()?;
                // Once a name is out of order nothing more is compared here: the sort will see all of them.
                if sorted {
                    let prefix = sort_prefix(self.document.text(name));
                    if let Some((last_prefix, last)) = last.replace((prefix, name)) {
                        let text = |name| self.document.text(name);
                        match last_prefix.cmp(&prefix).then_with(|| compare_utf16(text(last), text(name))) {
                            Ordering::Less => {}
                            Ordering::Equal => return self.duplicate(name),
                            Ordering::Greater => sorted = false,
                        }
                    }
                }
                self.skip_space();
                if self.peek() != Some(b':') {
                    return self.unexpected();
                }
                self.at += 1;
                self.skip_space();
                self.value(depth)?;
                self.skip_space();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return self.unexpected(),
                }
                self.skip_space();
            }
        }
        self.at += 1;
        self.document.nodes[open].len = self.document.nodes.len() as u32;
        if sorted { Ok(()) } else { self.sort(open) }
    }

    /// Puts the names of the object at `open` in canonical order, and refuses one that occurs twice.
    fn sort(&mut self, open: usize) -> Result<(), JsonError> {
        let Document { source, nodes, order, decoded, decoded_ends } = &mut self.document;
        let text = |name: u32| document::text(&nodes[name as usize], source, decoded, decoded_ends);
        let names = &mut self.names;
        names.clear();
        let mut name = open + 1;
        while name < nodes.len() {
            names.push((sort_prefix(text(name as u32)), name as u32));
            name = document::after(nodes, name + 1);
        }
        // Equal names stay in the order of the text, so that the second one is to blame.
        names.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| compare_utf16(text(a.1), text(b.1))).then(a.1.cmp(&b.1))
        });
        let twice = names.windows(2).filter(|pair| pair[0].0 == pair[1].0 && text(pair[0].1) == text(pair[1].1));
        if let Some(name) = twice.map(|pair| pair[1].1).min() {
            return self.duplicate(name as usize);
        }
        nodes[open].kind = NodeKind::Permuted;
        nodes[open].start = order.len() as u32;
        order.push(names.len() as u32);
        order.extend(names.iter().map(|name| name.1));
        Ok(())
    }

    fn duplicate(&self, name: usize) -> Result<(), JsonError> {
        self.fail(self.document.nodes[name].start as usize - 1, JsonReason::DuplicateMember)
    }
}
