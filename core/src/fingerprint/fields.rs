//! Selecting among named fields, which forms and multipart bodies have in common.

use alloc::vec::Vec;

use crate::json::Sink;
use crate::select::{Pointer, Selection, Token};
use crate::uri::percent_encode;

/// A form's pair or a multipart body's part.
pub(super) trait Field {
    /// What stands between two of them; [`Field::write`] never writes it, nor `?` or `~`.
    const SEPARATOR: &'static [u8];

    fn name(&self) -> &[u8];

    /// Writes all that counts of it in one spelling.
    fn write(&self, text: &mut Vec<u8>);
}

/// The fields that count, and the included pointers that found none.
pub(super) struct Chosen<'f, F> {
    pub(super) fields: Vec<&'f F>,
    /// `None` if nothing is included, or nothing of it was found: then the fields stand for themselves.
    pub(super) absent: Option<Vec<&'f Pointer>>,
}

impl<'f, F: Field> Chosen<'f, F> {
    pub(super) fn of(fields: &'f [F], selection: &'f Selection) -> Self {
        let hits = |pointer: &Pointer, field: &F| match pointer.segments.as_slice() {
            [] => true,
            [segment] => segment.matches(Token::Member(field.name())),
            _ => false,
        };
        match selection {
            Selection::Everything => Self { fields: fields.iter().collect(), absent: None },
            Selection::Exclude(pointers) => {
                let kept = |field: &&F| !pointers.iter().any(|pointer| hits(pointer, field));
                Self { fields: fields.iter().filter(kept).collect(), absent: None }
            }
            Selection::Include(pointers) => {
                let found: Vec<_> =
                    fields.iter().filter(|field| pointers.iter().any(|pointer| hits(pointer, field))).collect();
                if found.is_empty() {
                    return Self { fields: fields.iter().collect(), absent: None };
                }
                let absent =
                    pointers.iter().filter(|pointer| !fields.iter().any(|field| hits(pointer, field))).collect();
                Self { fields: found, absent: Some(absent) }
            }
        }
    }

    pub(super) fn write(&self, sink: &mut impl Sink) {
        let mut text = Vec::new();
        if self.absent.is_some() {
            sink.put(b"~");
        }
        for (number, field) in self.fields.iter().enumerate() {
            if number > 0 {
                sink.put(F::SEPARATOR);
            }
            text.clear();
            field.write(&mut text);
            sink.put(&text);
        }
        for pointer in self.absent.iter().flatten() {
            text.clear();
            percent_encode(pointer.text.as_bytes(), &mut text);
            sink.put(b"?");
            sink.put(&text);
        }
    }
}
