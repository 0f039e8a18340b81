//! A checked list of significant fields under a name of its own.

use core::fmt;
use core::str::FromStr;

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest, Sha256};

use super::{Fields, MAX_POINTERS, Pointer, SelectError, SelectReason, Significant};
use crate::hex;
use crate::json::{Document, Value, View};
use crate::token::is_token_character;

/// What a fingerprint is taken of: the operation's path template and its significant fields.
///
/// Stores keep [`Profile::definition`] beside the records, so that a record is compared by the profile it was made
/// under even after the configuration has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    id: ProfileId,
    template: Option<String>,
    pub(crate) selection: Selection,
    /// In lower case, sorted, each once.
    pub(crate) headers: Vec<String>,
    /// Sorted, each once.
    pub(crate) query: Option<Vec<String>>,
}

/// The pointers of a profile, sorted, each once: their order in a configuration means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Everything,
    Include(Vec<Pointer>),
    Exclude(Vec<Pointer>),
}

impl Profile {
    /// Checks the fields and gives them their name.
    pub fn new(template: Option<String>, significant: Significant) -> Result<Self, SelectError> {
        let selection = match significant.fields {
            Fields::Include(texts) if !texts.is_empty() => Selection::Include(pointers(texts)?),
            Fields::Exclude(texts) if !texts.is_empty() => {
                if texts.iter().any(String::is_empty) {
                    return Err(SelectError { entry: String::new(), reason: SelectReason::WholePayload });
                }
                Selection::Exclude(pointers(texts)?)
            }
            _ => Selection::Everything,
        };
        let mut headers = significant.headers;
        for name in &mut headers {
            if name.is_empty() || !name.bytes().all(is_token_character) {
                return Err(SelectError { entry: name.clone(), reason: SelectReason::InvalidHeader });
            }
            name.make_ascii_lowercase();
        }
        let query = significant.query.map(sorted);
        if query.iter().flatten().any(String::is_empty) {
            return Err(SelectError { entry: String::new(), reason: SelectReason::EmptyName });
        }
        let mut profile = Self { id: ProfileId([0; 4]), template, selection, headers: sorted(headers), query };
        profile.id = ProfileId::of(&profile.definition());
        Ok(profile)
    }

    /// Eight hexadecimal digits that name this list of significant fields.
    pub fn id(&self) -> ProfileId {
        self.id
    }

    /// Request headers that count, in lower case.
    pub fn headers(&self) -> &[String] {
        &self.headers
    }

    /// The path template whose parameters count, in its order.
    pub fn template(&self) -> Option<&str> {
        self.template.as_deref()
    }

    /// The one text that says all of this, which [`Profile::parse`] reads: canonical JSON.
    pub fn definition(&self) -> String {
        let mut text = String::from("{");
        let mut member = |name: &str, texts: &mut dyn Iterator<Item = &str>, list: bool| {
            text.push_str(if text.len() > 1 { ",\"" } else { "\"" });
            text.push_str(name);
            text.push_str(if list { "\":[" } else { "\":" });
            for (number, item) in texts.enumerate() {
                text.push_str(if number > 0 { "," } else { "" });
                push_string(&mut text, item);
            }
            text.push_str(if list { "]" } else { "" });
        };
        // In canonical order.
        if let Selection::Exclude(pointers) = &self.selection {
            member("exclude", &mut pointers.iter().map(|pointer| pointer.text.as_str()), true);
        }
        if !self.headers.is_empty() {
            member("headers", &mut self.headers.iter().map(String::as_str), true);
        }
        if let Selection::Include(pointers) = &self.selection {
            member("include", &mut pointers.iter().map(|pointer| pointer.text.as_str()), true);
        }
        if let Some(query) = &self.query {
            member("query", &mut query.iter().map(String::as_str), true);
        }
        if let Some(template) = &self.template {
            member("template", &mut core::iter::once(template.as_str()), false);
        }
        text.push('}');
        text
    }

    /// Reads what [`Profile::definition`] wrote, and nothing else: a definition of a later version is refused.
    pub fn parse(definition: &str) -> Result<Self, SelectError> {
        let invalid = || SelectError { entry: definition.to_owned(), reason: SelectReason::InvalidDefinition };
        let document = Document::read(definition.as_bytes()).map_err(|_| invalid())?;
        let root = document.root();
        let list = |name: &str| root.member(name.as_bytes()).map(strings);
        let significant = Significant {
            fields: match (list("exclude"), list("include")) {
                (Some(exclude), None) => Fields::Exclude(exclude),
                (None, Some(include)) => Fields::Include(include),
                _ => Fields::Everything,
            },
            headers: list("headers").unwrap_or_default(),
            query: list("query"),
        };
        let template = root.member(b"template").and_then(string);
        // Whatever was misunderstood above is written differently than it was read.
        Self::new(template, significant)?.checked(definition).ok_or_else(invalid)
    }

    fn checked(self, definition: &str) -> Option<Self> {
        (self.definition() == definition).then_some(self)
    }
}

impl Default for Profile {
    /// Everything counts; no path template.
    fn default() -> Self {
        let mut profile = Self {
            id: ProfileId([0; 4]),
            template: None,
            selection: Selection::Everything,
            headers: Vec::new(),
            query: None,
        };
        profile.id = ProfileId::of(&profile.definition());
        profile
    }
}

fn pointers(texts: Vec<String>) -> Result<Vec<Pointer>, SelectError> {
    let mut texts = sorted(texts);
    if texts.len() > MAX_POINTERS {
        let entry = texts.swap_remove(MAX_POINTERS);
        return Err(SelectError { entry, reason: SelectReason::TooMany });
    }
    texts.iter().map(|text| Pointer::parse(text)).collect()
}

/// In order, each once. A list has 64 entries at most, and clients would rather do without a sorting algorithm.
fn sorted(texts: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        if let Err(at) = kept.binary_search(&text) {
            kept.insert(at, text);
        }
    }
    kept
}

fn push_string(text: &mut String, item: &str) {
    let mut bytes = Vec::with_capacity(item.len() + 2);
    crate::json::write_string(item, &mut bytes);
    // A text, escaped.
    text.push_str(core::str::from_utf8(&bytes).unwrap_or_default());
}

fn strings(value: Value<'_>) -> Vec<String> {
    let View::Array(elements) = value.view() else {
        return Vec::new();
    };
    elements.filter_map(string).collect()
}

fn string(value: Value<'_>) -> Option<String> {
    value.string().and_then(|text| core::str::from_utf8(text).ok()).map(ToOwned::to_owned)
}

/// The name of a profile: the first four bytes of the SHA-256 of its definition.
///
/// Four bytes tell the few lists apart that one operation has had in its life; they are no defence against somebody
/// who writes both lists, who could as well write one that leaves everything out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId([u8; 4]);

impl ProfileId {
    fn of(definition: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"samekey profile 1\0");
        hash.update((definition.len() as u64).to_be_bytes());
        hash.update(definition);
        let digest: [u8; 32] = hash.finalize().into();
        Self([digest[0], digest[1], digest[2], digest[3]])
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileId({self})")
    }
}

/// Not eight lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileIdError;

impl fmt::Display for ProfileIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profile is named by eight lower-case hexadecimal digits")
    }
}

impl core::error::Error for ProfileIdError {}

impl FromStr for ProfileId {
    type Err = ProfileIdError;

    fn from_str(text: &str) -> Result<Self, ProfileIdError> {
        hex::parse(text).map(Self).ok_or(ProfileIdError)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn profile(significant: Significant) -> Profile {
        Profile::new(Some("/orders/{id}".to_owned()), significant).unwrap()
    }

    #[test]
    fn a_definition_reads_back_as_the_profile_it_was_written_from() {
        let odd = "/quote\"\\/\n\u{1}/é😂/~0~1/*";
        for significant in [
            Significant::everything(),
            Significant::exclude(["/ui", "/items/*/note", odd]),
            Significant::include(["", "/a"]).headers(["X-Tenant"]).query(["dry run", "a"]),
            Significant::everything().query([""; 0]),
        ] {
            let profile = profile(significant);
            assert_eq!(Profile::parse(&profile.definition()), Ok(profile));
        }
        assert_eq!(Profile::parse("{}"), Ok(Profile::default()));
    }

    #[test]
    fn the_definition_is_stable_and_blind_to_the_order_of_lists() {
        let one = profile(Significant::exclude(["/b", "/a", "/b"]).headers(["B", "a"]));
        let other = profile(Significant::exclude(["/a", "/b"]).headers(["a", "b"]));
        assert_eq!(one, other);
        assert_eq!(one.definition(), r#"{"exclude":["/a","/b"],"headers":["a","b"],"template":"/orders/{id}"}"#);
        // Records name it for years: a change here orphans them.
        assert_eq!(one.id().to_string(), "32af8b8b");
        assert_eq!(Profile::default().id().to_string(), "74c905db");
        assert_eq!("74c905db".parse(), Ok(Profile::default().id()));
    }

    #[test]
    fn another_definition_is_refused_whole() {
        for text in [
            "",
            "[]",
            "{ }",
            r#"{"exclude":[]}"#,
            r#"{"exclude":["/a"],"include":["/b"]}"#,
            r#"{"exclude":["/b","/a"]}"#,
            r#"{"new":1}"#,
            r#"{"template":1}"#,
            r#"{"exclude":["/a",1]}"#,
        ] {
            assert_eq!(Profile::parse(text).unwrap_err().reason, SelectReason::InvalidDefinition, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let refused = |significant: Significant| significant.check().unwrap_err();
        assert_eq!(refused(Significant::exclude(["/a", ""])).reason, SelectReason::WholePayload);
        assert_eq!(
            refused(Significant::include(["a"])).to_string(),
            "significant field `a`: a pointer starts with `/`"
        );
        assert_eq!(refused(Significant::everything().headers(["x y"])).reason, SelectReason::InvalidHeader);
        assert_eq!(refused(Significant::everything().query([""])).reason, SelectReason::EmptyName);
        let many = (0..65).map(|n| alloc::format!("/{n}"));
        assert_eq!(refused(Significant::exclude(many)).reason, SelectReason::TooMany);
    }
}
