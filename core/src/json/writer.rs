//! The canonical form of a read document (RFC 8785, section 3.2).

use alloc::vec::Vec;

use super::document::{Document, NodeKind};
use super::{number, string};

/// Where canonical bytes go: a buffer or a hash.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes the value at a node. Recursion ends where the reader's limit on nesting ended.
pub(super) fn write(document: &Document<'_>, at: usize, sink: &mut impl Sink) {
    let mut writer = Writer { document, sink, start: 0, end: 0 };
    writer.value(at);
    writer.flush();
}

/// Copies runs of the text instead of tokens: what a browser sends is canonical but for the order of members.
struct Writer<'w, S> {
    document: &'w Document<'w>,
    sink: &'w mut S,
    /// The run of the text that has yet to be copied.
    start: usize,
    end: usize,
}

impl<S: Sink> Writer<'_, S> {
    fn value(&mut self, at: usize) {
        let node = self.document.nodes[at];
        let start = node.start as usize;
        let end = node.len as usize;
        match node.kind {
            NodeKind::Verbatim => self.copy(start, start + end),
            NodeKind::Plain => self.copy(start - 1, start + end + 1),
            NodeKind::Number => {
                self.flush();
                number::write(&self.document.source[start..start + end], self.sink);
            }
            NodeKind::Decoded => {
                self.flush();
                self.sink.put(b"\"");
                string::write_escaped(self.document.text(at), self.sink);
                self.sink.put(b"\"");
            }
            NodeKind::Array => {
                self.copy(start, start + 1);
                let mut element = at + 1;
                while element < end {
                    if element > at + 1 {
                        self.punctuation(b",");
                    }
                    self.value(element);
                    element = self.document.after(element);
                }
                self.punctuation(b"]");
            }
            NodeKind::Object => {
                self.copy(start, start + 1);
                let mut name = at + 1;
                while name < end {
                    if name > at + 1 {
                        self.punctuation(b",");
                    }
                    self.member(name);
                    name = self.document.after(name + 1);
                }
                self.punctuation(b"}");
            }
            NodeKind::Permuted => {
                self.punctuation(b"{");
                let document = self.document;
                let names = &document.order[start + 1..=start + document.order[start] as usize];
                for (number, name) in names.iter().enumerate() {
                    if number > 0 {
                        self.punctuation(b",");
                    }
                    self.member(*name as usize);
                }
                self.punctuation(b"}");
            }
        }
    }

    fn member(&mut self, name: usize) {
        self.value(name);
        self.punctuation(b":");
        self.value(name + 1);
    }

    #[inline]
    fn copy(&mut self, start: usize, end: usize) {
        if start != self.end {
            self.flush();
            self.start = start;
        }
        self.end = end;
    }

    /// A byte between tokens, from the text if the run just reaches it.
    #[inline]
    fn punctuation(&mut self, byte: &[u8; 1]) {
        if self.start < self.end && self.document.source.get(self.end) == Some(&byte[0]) {
            self.end += 1;
        } else {
            self.flush();
            self.sink.put(byte);
        }
    }

    fn flush(&mut self) {
        if self.start < self.end {
            self.sink.put(&self.document.source[self.start..self.end]);
            self.start = self.end;
        }
    }
}
