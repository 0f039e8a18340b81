//! Significant fields: which parts of a payload make two deliveries the same intent.
//!
//! A pointer is an RFC 6901 JSON pointer in which a segment `*` stands for every element or member: `/ui`,
//! `/items/*/note`. (A member that is really called `*` can only be reached through the wildcard.) In forms a pointer
//! of one segment selects the fields, or multipart parts, of that name.
//!
//! * [`Significant::exclude`]: an excluded member is as if it were absent, an excluded element leaves a hole, so that
//!   the elements behind it keep their places.
//! * [`Significant::include`]: only what the pointers find counts; what a pointer does not find counts as absent, and if
//!   none finds anything the whole payload counts, so that two unrelated payloads never look alike.
//!
//! Pointers select inside JSON and forms. Any other body has no fields and always counts whole.

mod pointer;
mod profile;

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

pub(crate) use pointer::{Matching, Pointer, Segment, Token, matching, push};
pub(crate) use profile::Selection;
pub use profile::{Profile, ProfileId, ProfileIdError};

/// Pointers in one list: which of them still match is kept in one machine word while a payload is walked.
pub const MAX_POINTERS: usize = 64;

/// The significant fields of an operation, as its author wrote them down.
///
/// Nothing is checked here: [`Significant::check`] and [`Profile::new`] do, and say which entry is wrong.
///
/// ```
/// use samekey_core::select::Significant;
/// let significant = Significant::exclude(["/ui", "/items/*/note"]).query(["dry_run"]);
/// assert!(significant.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Significant {
    fields: Fields,
    headers: Vec<String>,
    query: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Fields {
    #[default]
    Everything,
    Include(Vec<String>),
    Exclude(Vec<String>),
}

impl Significant {
    /// The whole payload and the whole query string, which is also the default.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Only what these pointers find. An empty list is [`Significant::everything`].
    pub fn include<I: IntoIterator<Item = S>, S: Into<String>>(pointers: I) -> Self {
        Self { fields: Fields::Include(collect(pointers)), ..Self::default() }
    }

    /// Everything but what these pointers find.
    pub fn exclude<I: IntoIterator<Item = S>, S: Into<String>>(pointers: I) -> Self {
        Self { fields: Fields::Exclude(collect(pointers)), ..Self::default() }
    }

    /// Request headers that count in addition, with all their values in order.
    #[must_use]
    pub fn headers<I: IntoIterator<Item = S>, S: Into<String>>(mut self, names: I) -> Self {
        self.headers = collect(names);
        self
    }

    /// Query parameters that alone count, by their percent-decoded names; unset, the whole query string counts as sent.
    #[must_use]
    pub fn query<I: IntoIterator<Item = S>, S: Into<String>>(mut self, names: I) -> Self {
        self.query = Some(collect(names));
        self
    }

    /// Whether every pointer and name can be used, or which one cannot and why.
    pub fn check(&self) -> Result<(), SelectError> {
        Profile::new(None, self.clone()).map(drop)
    }
}

fn collect<I: IntoIterator<Item = S>, S: Into<String>>(items: I) -> Vec<String> {
    items.into_iter().map(Into::into).collect()
}

/// An entry of [`Significant`], or a stored definition, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectError {
    /// The entry as written.
    pub entry: String,
    /// What is wrong with it.
    pub reason: SelectReason,
}

/// Why an entry cannot be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectReason {
    /// A pointer that does not start with `/` (RFC 6901, section 3).
    NoSlash,
    /// A `~` that is not followed by `0` or `1`.
    InvalidEscape,
    /// The empty pointer under `exclude`, which would leave nothing to tell payloads apart.
    WholePayload,
    /// More than [`MAX_POINTERS`] pointers.
    TooMany,
    /// Not a header name (RFC 9110, section 5.1).
    InvalidHeader,
    /// An empty query parameter name.
    EmptyName,
    /// Not a definition that [`Profile::definition`] wrote.
    InvalidDefinition,
}

impl fmt::Display for SelectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlash => "a pointer starts with `/`",
            Self::InvalidEscape => "in a pointer `~` is written `~0` and a `/` in a name `~1`",
            Self::WholePayload => "excluding the whole payload would make all payloads equal",
            Self::TooMany => "at most 64 pointers are possible",
            Self::InvalidHeader => "not a header name",
            Self::EmptyName => "a query parameter needs a name",
            Self::InvalidDefinition => "not the definition of a profile",
        })
    }
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "significant field `{}`: {}", self.entry, self.reason)
    }
}

impl core::error::Error for SelectError {}
