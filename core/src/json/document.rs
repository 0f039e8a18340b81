//! A read document: one flat list of nodes in the order of the text, twelve bytes each, that point back into it.

use alloc::vec::Vec;

use super::writer::Sink;

/// A text that is strict JSON. Nothing is copied out of it except strings with escapes.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(super) source: &'a [u8],
    pub(super) nodes: Vec<Node>,
    /// For each object whose members are not sent in canonical order: their number, then their name nodes in that order.
    pub(super) order: Vec<u32>,
    /// Strings that hold escapes, decoded, one after the other …
    pub(super) decoded: Vec<u8>,
    /// … and where each of them ends there.
    pub(super) decoded_ends: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    /// Where its text starts; for [`NodeKind::Permuted`] where its members stand in `order`.
    pub(super) start: u32,
    /// Length of its text; for containers the node after their last; for [`NodeKind::Decoded`] its number there.
    pub(super) len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// `null`, `true`, `false` or a number that is canonical as it stands.
    Verbatim,
    /// A number in another spelling.
    Number,
    /// A string without escapes: canonical as it stands, too.
    Plain,
    /// A string with escapes.
    Decoded,
    Array,
    /// An object whose members are sent in canonical order.
    Object,
    /// Any other object.
    Permuted,
}

/// One value in a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'d> {
    document: &'d Document<'d>,
    at: usize,
}

/// What a value is, as far as selecting needs to know.
pub(crate) enum View<'d> {
    Scalar,
    Array(Elements<'d>),
    Object(Members<'d>),
}

impl<'a> Document<'a> {
    pub(crate) fn root(&self) -> Value<'_> {
        Value { document: self, at: 0 }
    }

    /// The characters of a string node, in UTF-8.
    pub(super) fn text(&self, at: usize) -> &[u8] {
        text(&self.nodes[at], self.source, &self.decoded, &self.decoded_ends)
    }

    /// The node after the value at `at`.
    pub(super) fn after(&self, at: usize) -> usize {
        after(&self.nodes, at)
    }
}

/// [`Document::text`] over its parts, for the reader, which is changing another one.
pub(super) fn text<'t>(node: &Node, source: &'t [u8], decoded: &'t [u8], decoded_ends: &[u32]) -> &'t [u8] {
    if node.kind == NodeKind::Plain {
        let start = node.start as usize;
        &source[start..start + node.len as usize]
    } else {
        let number = node.len as usize;
        let start = number.checked_sub(1).map_or(0, |before| decoded_ends[before] as usize);
        &decoded[start..decoded_ends[number] as usize]
    }
}

pub(super) fn after(nodes: &[Node], at: usize) -> usize {
    let node = &nodes[at];
    match node.kind {
        NodeKind::Array | NodeKind::Object | NodeKind::Permuted => node.len as usize,
        _ => at + 1,
    }
}

impl<'d> Value<'d> {
    pub(crate) fn view(self) -> View<'d> {
        let Self { document, at } = self;
        let node = document.nodes[at];
        match node.kind {
            NodeKind::Array => View::Array(Elements { document, next: at + 1, end: node.len as usize }),
            NodeKind::Object => View::Object(Members { document, order: None, next: at + 1, end: node.len as usize }),
            NodeKind::Permuted => {
                let start = node.start as usize;
                let end = start + 1 + document.order[start] as usize;
                View::Object(Members { document, order: Some(&document.order), next: start + 1, end })
            }
            _ => View::Scalar,
        }
    }

    /// The member of that name, if this is an object that has it.
    pub(crate) fn member(self, name: &[u8]) -> Option<Self> {
        let View::Object(mut members) = self.view() else {
            return None;
        };
        members.find(|member| member.0.text() == name).map(|member| member.1)
    }

    /// The element at that index, if this is an array that long.
    pub(crate) fn element(self, index: usize) -> Option<Self> {
        let View::Array(mut elements) = self.view() else {
            return None;
        };
        elements.nth(index)
    }

    /// The characters, if this is a string.
    pub(crate) fn string(self) -> Option<&'d [u8]> {
        let kind = self.document.nodes[self.at].kind;
        matches!(kind, NodeKind::Plain | NodeKind::Decoded).then(|| self.text())
    }

    /// A number, `true`, `false` or `null` as it was sent.
    pub(crate) fn literal(self) -> Option<&'d [u8]> {
        let Node { kind, start, len } = self.document.nodes[self.at];
        let literal = matches!(kind, NodeKind::Verbatim | NodeKind::Number);
        literal.then(|| &self.document.source[start as usize..(start + len) as usize])
    }

    /// The characters of a member's name.
    pub(crate) fn text(self) -> &'d [u8] {
        self.document.text(self.at)
    }

    /// Writes the canonical form.
    pub(crate) fn write(self, sink: &mut impl Sink) {
        super::writer::write(self.document, self.at, sink);
    }
}

/// The elements of an array.
pub(crate) struct Elements<'d> {
    document: &'d Document<'d>,
    next: usize,
    end: usize,
}

impl<'d> Iterator for Elements<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        let Self { document, next: at, end } = *self;
        (at < end).then(|| {
            self.next = document.after(at);
            Value { document, at }
        })
    }
}

/// The members of an object in canonical order, name and value.
pub(crate) struct Members<'d> {
    document: &'d Document<'d>,
    /// Where to look up the next name, if not in the nodes themselves.
    order: Option<&'d [u32]>,
    next: usize,
    end: usize,
}

impl<'d> Iterator for Members<'d> {
    type Item = (Value<'d>, Value<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let document = self.document;
        let at = match self.order {
            None => {
                let at = self.next;
                self.next = document.after(at + 1);
                at
            }
            Some(order) => {
                self.next += 1;
                order[self.next - 1] as usize
            }
        };
        Some((Value { document, at }, Value { document, at: at + 1 }))
    }
}
