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
    let node = document.nodes[at];
    let source = |start: usize, len: u32| &document.source[start..start + len as usize];
    match node.kind {
        NodeKind::Verbatim => sink.put(source(node.start as usize, node.len)),
        NodeKind::Number => number::write(source(node.start as usize, node.len), sink),
        // With the quotes on both sides: one write instead of three.
        NodeKind::Plain => sink.put(source(node.start as usize - 1, node.len + 2)),
        NodeKind::Decoded => {
            sink.put(b"\"");
            string::write_escaped(document.text(at), sink);
            sink.put(b"\"");
        }
        NodeKind::Array => {
            let mut before: &[u8] = b"[";
            let mut element = at + 1;
            while element < node.len as usize {
                sink.put(before);
                write(document, element, sink);
                element = document.after(element);
                before = b",";
            }
            sink.put(if before == b"[" { b"[]" } else { b"]" });
        }
        NodeKind::Object => {
            let mut before: &[u8] = b"{";
            let mut name = at + 1;
            while name < node.len as usize {
                sink.put(before);
                write_member(document, name, sink);
                name = document.after(name + 1);
                before = b",";
            }
            sink.put(if before == b"{" { b"{}" } else { b"}" });
        }
        NodeKind::Permuted => {
            let start = node.start as usize;
            let mut before: &[u8] = b"{";
            for name in &document.order[start + 1..=start + document.order[start] as usize] {
                sink.put(before);
                write_member(document, *name as usize, sink);
                before = b",";
            }
            sink.put(b"}");
        }
    }
}

fn write_member(document: &Document<'_>, name: usize, sink: &mut impl Sink) {
    write(document, name, sink);
    sink.put(b":");
    write(document, name + 1, sink);
}
