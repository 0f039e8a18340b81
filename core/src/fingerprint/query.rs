//! The query string: whole and as sent, or some of its parameters.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::hasher::Hasher;
use crate::uri::percent_decode;

/// Hashes what counts of a query string. A lone `?` is none: programs differ in whether they keep it.
pub(super) fn hash(query: Option<&str>, names: Option<&[String]>, hasher: &mut Hasher) {
    let query = query.unwrap_or_default();
    match names {
        None => hasher.frame(query.as_bytes()),
        Some(names) => {
            let parameters = selected(query, names);
            hasher.count(parameters.len());
            for parameter in parameters {
                hasher.frame(&parameter.name);
                hasher.frame(parameter.sent.as_bytes());
            }
        }
    }
}

/// A parameter that counts.
pub(super) struct Parameter<'q> {
    pub(super) name: Cow<'q, [u8]>,
    /// Its value as sent, with the `=`.
    pub(super) sent: &'q str,
}

/// The parameters of those names in order. One whose name cannot be decoded counts as well: nobody knows what the
/// application takes it for.
pub(super) fn selected<'q>(query: &'q str, names: &[String]) -> Vec<Parameter<'q>> {
    let parameters = query.split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
        let (name, sent) = pair.find('=').and_then(|at| pair.split_at_checked(at)).unwrap_or((pair, ""));
        let Some(decoded) = decode(name) else {
            return Some(Parameter { name: Cow::Borrowed(name.as_bytes()), sent });
        };
        let counts = names.binary_search_by(|known| known.as_bytes().cmp(&decoded)).is_ok();
        counts.then_some(Parameter { name: decoded, sent })
    });
    parameters.collect()
}

fn decode(name: &str) -> Option<Cow<'_, [u8]>> {
    if !name.contains('+') {
        return percent_decode(name.as_bytes()).ok();
    }
    let spaced = name.replace('+', " ");
    percent_decode(spaced.as_bytes()).ok().map(|decoded| Cow::Owned(decoded.into_owned()))
}
