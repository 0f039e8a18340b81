//! Which significant fields tell two payloads apart. Empty exactly when their fingerprints are equal.

mod json;

use core::fmt;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::body::{Body, Reading};
use super::fields::{Chosen, Field};
use super::{Payload, header_values, query};
use crate::select::{Profile, Selection};

/// A significant field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which one.
    pub place: Place,
    /// How.
    pub change: Change,
}

/// Where something differs.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The value of a path parameter, counted from 0.
    PathParameter(usize),
    /// The query string as a whole.
    Query,
    /// A query parameter of the profile's list.
    QueryParameter(String),
    /// A header of the profile's list.
    Header(String),
    /// The media type or its character set.
    ContentType,
    /// The content coding.
    ContentEncoding,
    /// How the body can be read: one of them is strict JSON, a form, … and the other is not.
    Kind,
    /// A JSON value, by its pointer.
    Json(String),
    /// A form field or multipart part, by its name.
    Field(String),
    /// The fields are the same in another order.
    FieldOrder,
    /// The bytes.
    Body,
}

/// How something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Both have it, with another value.
    Changed,
    /// Only the first one has it.
    OnlyFirst,
    /// Only the second one has it.
    OnlySecond,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathParameter(index) => write!(f, "path parameter {}", index + 1),
            Self::Query => f.write_str("query"),
            Self::QueryParameter(name) => write!(f, "query parameter {name}"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::ContentType => f.write_str("content type"),
            Self::ContentEncoding => f.write_str("content encoding"),
            Self::Kind => f.write_str("kind of body"),
            Self::Json(pointer) if pointer.is_empty() => f.write_str("the whole JSON value"),
            Self::Json(pointer) => f.write_str(pointer),
            Self::Field(name) => write!(f, "field {name}"),
            Self::FieldOrder => f.write_str("order of the fields"),
            Self::Body => f.write_str("body"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "differs",
            Self::OnlyFirst => "only in the first",
            Self::OnlySecond => "only in the second",
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.change)
    }
}

/// The significant fields in which two payloads differ, in the order in which they are hashed; the first 1,000
/// of them.
pub fn explain(first: &Payload<'_>, second: &Payload<'_>, profile: &Profile) -> Vec<Difference> {
    let mut found = Differences(Vec::new());
    let parameters = first.path_params.len().max(second.path_params.len());
    for index in 0..parameters {
        found.compare(Place::PathParameter(index), first.path_params.get(index), second.path_params.get(index));
    }
    queries(first, second, profile, &mut found);
    for name in &profile.headers {
        let values =
            |payload| Some(header_values(payload, name).collect::<Vec<_>>()).filter(|values| !values.is_empty());
        found.compare(Place::Header(name.clone()), values(first), values(second));
    }
    let (first, second) = (Reading::of(first), Reading::of(second));
    let sent = |text: &str| (!text.is_empty()).then(|| text.to_string());
    if first.essence == second.essence {
        found.compare(Place::ContentType, Some(&first.charset), Some(&second.charset));
    } else {
        found.compare(Place::ContentType, sent(&first.essence), sent(&second.essence));
    }
    found.compare(Place::ContentEncoding, sent(&first.coding), sent(&second.coding));
    match (&first.body, &second.body) {
        (Body::Json(first), Body::Json(second)) => {
            json::compare(first, second, &profile.selection, &mut found);
        }
        (Body::Form(first), Body::Form(second)) => {
            fields(first, second, &profile.selection, &mut found);
        }
        (Body::Multipart(first), Body::Multipart(second)) => {
            fields(first, second, &profile.selection, &mut found);
        }
        (Body::Raw(first, _), Body::Raw(second, _)) => {
            let sent = |bytes: &'_ [u8]| (!bytes.is_empty()).then(|| bytes.to_vec());
            found.compare(Place::Body, sent(first), sent(second));
        }
        _ => found.push(Place::Kind, Change::Changed),
    }
    found.0
}

/// Nobody reads more, and a place may be as long as the payload.
const MAX_DIFFERENCES: usize = 1_000;

struct Differences(Vec<Difference>);

impl Differences {
    fn push(&mut self, place: Place, change: Change) {
        if self.0.len() < MAX_DIFFERENCES {
            self.0.push(Difference { place, change });
        }
    }

    fn compare<T: PartialEq>(&mut self, place: Place, first: Option<T>, second: Option<T>) {
        match (first, second) {
            (Some(_), None) => self.push(place, Change::OnlyFirst),
            (None, Some(_)) => self.push(place, Change::OnlySecond),
            (first, second) if first != second => self.push(place, Change::Changed),
            _ => {}
        }
    }
}

fn queries(first: &Payload<'_>, second: &Payload<'_>, profile: &Profile, found: &mut Differences) {
    let sent = |payload: &Payload<'_>| payload.query.filter(|query| !query.is_empty()).map(ToString::to_string);
    let Some(names) = &profile.query else {
        return found.compare(Place::Query, sent(first), sent(second));
    };
    let selected = |payload: &Payload<'_>| {
        let parameters = query::selected(payload.query.unwrap_or_default(), names);
        parameters
            .into_iter()
            .map(|parameter| (parameter.name.into_owned(), parameter.sent.as_bytes().to_vec()))
            .collect::<Vec<_>>()
    };
    by_name(&selected(first), &selected(second), Place::QueryParameter, Place::Query, found);
}

fn fields<F: Field>(first: &[F], second: &[F], selection: &Selection, found: &mut Differences) {
    let chosen = |fields| {
        let written = |field: &&F| {
            let mut text = Vec::new();
            field.write(&mut text);
            (field.name().to_vec(), text)
        };
        Chosen::of(fields, selection).fields.iter().map(written).collect::<Vec<_>>()
    };
    let before = found.0.len();
    by_name(&chosen(first), &chosen(second), Place::Field, Place::FieldOrder, found);
    // One side is a selection and the other the whole, although they hold the same fields.
    let selected = |fields| Chosen::of(fields, selection).absent;
    if found.0.len() == before && selected(first) != selected(second) {
        found.push(Place::Body, Change::Changed);
    }
}

/// Compares what stands under each name; `order` differs where all of that is the same and its sequence is not.
fn by_name(first: &[Named], second: &[Named], named: fn(String) -> Place, order: Place, found: &mut Differences) {
    let before = found.0.len();
    let (one, other) = (grouped(first), grouped(second));
    let names: BTreeSet<_> = one.keys().chain(other.keys()).copied().collect();
    for name in names {
        let place = named(String::from_utf8_lossy(name).into_owned());
        found.compare(place, one.get(name), other.get(name));
    }
    if found.0.len() == before && first != second {
        found.push(order, Change::Changed);
    }
}

/// A name and what stands under it.
type Named = (Vec<u8>, Vec<u8>);

fn grouped(fields: &[Named]) -> BTreeMap<&[u8], Vec<&[u8]>> {
    let mut groups = BTreeMap::<&[u8], Vec<&[u8]>>::new();
    for (name, value) in fields {
        groups.entry(name).or_default().push(value);
    }
    groups
}
