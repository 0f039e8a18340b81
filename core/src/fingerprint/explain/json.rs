//! Two JSON documents side by side, with the selection applied to both.

use core::cmp::Ordering;

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::json::{child, finds_anything};
use super::{Change, Differences, Place};
use crate::json::{Document, Elements, Members, Value, View, compare_utf16};
use crate::select::{Matching, Pointer, Segment, Selection, Token, matching, push};

pub(super) fn compare(first: &Document<'_>, second: &Document<'_>, selection: &Selection, found: &mut Differences) {
    let (first, second) = (first.root(), second.root());
    let mut walk = Walk { excluded: &[], path: String::new(), found };
    match selection {
        Selection::Exclude(pointers) => walk.excluded = pointers,
        Selection::Include(pointers) if finds_anything(first, pointers) || finds_anything(second, pointers) => {
            let start = walk.found.0.len();
            for pointer in pointers {
                walk.project(Some(first), Some(second), &pointer.segments);
            }
            // Pointers may overlap.
            let mut seen = BTreeSet::new();
            let mut number = 0;
            walk.found.0.retain(|difference| {
                number += 1;
                number <= start || seen.insert(difference.place.to_string())
            });
            return;
        }
        _ => {}
    }
    walk.values(first, second, matching(walk.excluded));
}

struct Walk<'w> {
    excluded: &'w [Pointer],
    path: String,
    found: &'w mut Differences,
}

impl Walk<'_> {
    fn at(&mut self, token: Token<'_>, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        push(&mut self.path, token);
        walk(self);
        self.path.truncate(length);
    }

    fn differs(&mut self, change: Change) {
        self.found.push(Place::Json(self.path.clone()), change);
    }

    fn values(&mut self, first: Value<'_>, second: Value<'_>, excluded: Matching) {
        match (first.view(), second.view()) {
            (View::Array(first), View::Array(second)) => {
                each_element(first, second, |index, first, second| {
                    let step = excluded.step(self.excluded, Token::Element(index));
                    self.at(Token::Element(index), |walk| match (first, second) {
                        (Some(first), Some(second)) if !step.found => {
                            walk.values(first, second, step.onward);
                        }
                        (Some(_), Some(_)) => {}
                        // A hole is still a place: the lists are not equally long.
                        (first, _) => walk.differs(only(first.is_some())),
                    });
                });
            }
            (View::Object(first), View::Object(second)) => {
                each_member(first, second, |name, first, second| {
                    let step = excluded.step(self.excluded, Token::Member(name));
                    self.at(Token::Member(name), |walk| match (first, second) {
                        _ if step.found => {}
                        (Some(first), Some(second)) => walk.values(first, second, step.onward),
                        (first, _) => walk.differs(only(first.is_some())),
                    });
                });
            }
            (View::Scalar, View::Scalar) if written(first) == written(second) => {}
            _ => self.differs(Change::Changed),
        }
    }

    /// Compares what the rest of a pointer finds on both sides.
    fn project(&mut self, first: Option<Value<'_>>, second: Option<Value<'_>>, segments: &[Segment]) {
        match segments {
            [] => match (first, second) {
                (Some(first), Some(second)) => self.values(first, second, matching(&[])),
                (None, None) => {}
                (first, _) => self.differs(only(first.is_some())),
            },
            [Segment::Each, rest @ ..] => self.project_each(first, second, rest),
            [segment @ Segment::Named { name, .. }, rest @ ..] => {
                let first = first.and_then(|value| child(value, segment));
                let second = second.and_then(|value| child(value, segment));
                self.at(Token::Member(name.as_bytes()), |walk| {
                    walk.project(first, second, rest);
                });
            }
        }
    }

    fn project_each(&mut self, first: Option<Value<'_>>, second: Option<Value<'_>>, rest: &[Segment]) {
        // What is not there has no elements, as a scalar has none.
        let first = first.map_or(View::Scalar, Value::view);
        let second = second.map_or(View::Scalar, Value::view);
        match (first, second) {
            (View::Array(first), View::Array(second)) => {
                each_element(first, second, |index, first, second| {
                    self.at(Token::Element(index), |walk| {
                        walk.project_pair(first, second, rest);
                    });
                });
            }
            (View::Object(first), View::Object(second)) => {
                each_member(first, second, |name, first, second| {
                    self.at(Token::Member(name), |walk| {
                        walk.project_pair(first, second, rest);
                    });
                });
            }
            (View::Scalar, View::Scalar) => {}
            (View::Scalar, _) => self.differs(Change::OnlySecond),
            (_, View::Scalar) => self.differs(Change::OnlyFirst),
            _ => self.differs(Change::Changed),
        }
    }

    /// Elements or members that `*` walks: their places count even where the rest of the pointer finds nothing.
    fn project_pair(&mut self, first: Option<Value<'_>>, second: Option<Value<'_>>, rest: &[Segment]) {
        if first.is_some() && second.is_some() {
            self.project(first, second, rest);
        } else {
            self.differs(only(first.is_some()));
        }
    }
}

fn only(first: bool) -> Change {
    if first { Change::OnlyFirst } else { Change::OnlySecond }
}

fn written(value: Value<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    value.write(&mut text);
    text
}

fn each_element<'d>(
    mut first: Elements<'d>,
    mut second: Elements<'d>,
    mut pair: impl FnMut(usize, Option<Value<'d>>, Option<Value<'d>>),
) {
    for index in 0.. {
        match (first.next(), second.next()) {
            (None, None) => break,
            (first, second) => pair(index, first, second),
        }
    }
}

/// Merges two lists of members, both of which come in canonical order.
fn each_member<'d>(
    mut first: Members<'d>,
    mut second: Members<'d>,
    mut pair: impl FnMut(&[u8], Option<Value<'d>>, Option<Value<'d>>),
) {
    let (mut one, mut other) = (first.next(), second.next());
    loop {
        let order = match (one, other) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => compare_utf16(a.text(), b.text()),
        };
        let left = one.filter(|_| order.is_le());
        let right = other.filter(|_| order.is_ge());
        let name = left.or(right).map_or(&[][..], |member| member.0.text());
        pair(name, left.map(|member| member.1), right.map(|member| member.1));
        if order.is_le() {
            one = first.next();
        }
        if order.is_ge() {
            other = second.next();
        }
    }
}
