//! The significant part of a JSON document, written canonically.
//!
//! Selections are written as texts that no JSON document has, so that no payload can be mistaken for a selection of
//! another: a hole and an absent value are `_`, and a projection is `~{"<pointer>":<what it finds>,…}`.

use crate::json::{Document, Sink, Value, View, write_string};
use crate::select::{Matching, Pointer, Segment, Selection, Token, matching};

const ABSENT: &[u8] = b"_";

pub(super) fn write(document: &Document<'_>, selection: &Selection, sink: &mut impl Sink) {
    let root = document.root();
    match selection {
        Selection::Everything => root.write(sink),
        Selection::Exclude(pointers) => write_excluding(root, pointers, matching(pointers), sink),
        Selection::Include(pointers) if finds_anything(root, pointers) => {
            sink.put(b"~{");
            for (number, pointer) in pointers.iter().enumerate() {
                if number > 0 {
                    sink.put(b",");
                }
                write_string(&pointer.text, sink);
                sink.put(b":");
                write_projection(Some(root), &pointer.segments, sink);
            }
            sink.put(b"}");
        }
        Selection::Include(_) => root.write(sink),
    }
}

fn write_excluding(value: Value<'_>, pointers: &[Pointer], matching: Matching, sink: &mut impl Sink) {
    if matching.is_none() {
        return value.write(sink);
    }
    match value.view() {
        View::Scalar => value.write(sink),
        View::Array(elements) => {
            sink.put(b"[");
            for (index, element) in elements.enumerate() {
                if index > 0 {
                    sink.put(b",");
                }
                let step = matching.step(pointers, Token::Element(index));
                if step.found {
                    sink.put(ABSENT);
                } else {
                    write_excluding(element, pointers, step.onward, sink);
                }
            }
            sink.put(b"]");
        }
        View::Object(members) => {
            let mut before: &[u8] = b"{";
            for (name, value) in members {
                let step = matching.step(pointers, Token::Member(name.text()));
                if step.found {
                    continue;
                }
                sink.put(before);
                name.write(sink);
                sink.put(b":");
                write_excluding(value, pointers, step.onward, sink);
                before = b",";
            }
            sink.put(if before == b"{" { b"{}" } else { b"}" });
        }
    }
}

pub(super) fn finds_anything(root: Value<'_>, pointers: &[Pointer]) -> bool {
    pointers.iter().any(|pointer| finds(root, &pointer.segments))
}

fn finds(value: Value<'_>, segments: &[Segment]) -> bool {
    match segments {
        [] => true,
        [Segment::Each, rest @ ..] => match value.view() {
            View::Scalar => false,
            View::Array(mut elements) => elements.any(|element| finds(element, rest)),
            View::Object(mut members) => members.any(|member| finds(member.1, rest)),
        },
        [segment, rest @ ..] => child(value, segment).is_some_and(|child| finds(child, rest)),
    }
}

/// What a segment other than `*` leads to.
pub(super) fn child<'d>(value: Value<'d>, segment: &Segment) -> Option<Value<'d>> {
    match segment {
        Segment::Each => None,
        Segment::Named { name, index } => {
            value.member(name.as_bytes()).or_else(|| index.and_then(|index| value.element(index)))
        }
    }
}

/// Writes what the rest of a pointer finds: the value, or the container that `*` walks with the finding in place of
/// each element or member. The steps of the pointer itself need not be written again.
fn write_projection(value: Option<Value<'_>>, segments: &[Segment], sink: &mut impl Sink) {
    let Some(value) = value else {
        return sink.put(ABSENT);
    };
    match segments {
        [] => value.write(sink),
        [Segment::Each, rest @ ..] => match value.view() {
            View::Scalar => sink.put(ABSENT),
            View::Array(elements) => {
                sink.put(b"[");
                for (index, element) in elements.enumerate() {
                    if index > 0 {
                        sink.put(b",");
                    }
                    write_projection(Some(element), rest, sink);
                }
                sink.put(b"]");
            }
            View::Object(members) => {
                sink.put(b"{");
                for (number, (name, value)) in members.enumerate() {
                    if number > 0 {
                        sink.put(b",");
                    }
                    name.write(sink);
                    sink.put(b":");
                    write_projection(Some(value), rest, sink);
                }
                sink.put(b"}");
            }
        },
        [segment, rest @ ..] => write_projection(child(value, segment), rest, sink),
    }
}
