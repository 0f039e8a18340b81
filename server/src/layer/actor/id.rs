//! What may be an actor's id, wherever it comes from.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use samekey_core::Actor;
use samekey_core::problem::Code;

use crate::problem::Problem;

/// Longer than any id that means somebody (an e-mail address has up to 254 bytes, a `sub` 255 characters), and
/// short enough for a column of every record's unique index.
const MAX_ID_BYTES: usize = 512;

/// An actor, if the text can be the id of one: control characters and novels are nobody's name.
pub(crate) fn actor(id: &str) -> Option<Actor> {
    let usable = !id.trim().is_empty() && id.len() <= MAX_ID_BYTES && !id.chars().any(char::is_control);
    usable.then(|| Actor::new(id))
}

/// A string, or an integer in its decimal digits: applications move from one to the other without meaning somebody
/// else. Anything else is no id.
#[cfg(feature = "cli")]
pub(super) fn text(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// The only line of this name. Two lines are two opinions: the request is refused, even where an operation allows
/// requests without an actor.
pub(super) fn only_line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next();
    if lines.next().is_some() {
        return Err(refused(format!("The header {name} stands there more than once. Nothing was run.")));
    }
    Ok(line.filter(|line| !line.as_bytes().trim_ascii().is_empty()))
}

/// A 401 for a request that says who it is in a way that cannot be believed.
pub(super) fn refused(why: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::new(Code::ActorRequired, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "cli")]
    use serde_json::json;

    #[test]
    fn ids_are_bounded_and_printable() {
        for good in ["ann", "17", "auth0|5f7c8ec7", "ann@example.com", "Zoë", "*", &"x".repeat(512)] {
            assert_eq!(actor(good).map(|actor| actor.as_str().to_owned()).as_deref(), Some(good));
        }
        for bad in ["", " ", "a\nb", "a\u{0}", "\u{7f}", "a\u{85}", "a\tb", &"x".repeat(513), &"x".repeat(10_000)] {
            assert_eq!(actor(bad), None, "{bad:?}");
        }
    }

    #[test]
    #[cfg(feature = "cli")]
    fn strings_and_integers_are_ids() {
        for (value, id) in [
            (json!("17"), Some("17")),
            (json!(17), Some("17")),
            (json!(-1), Some("-1")),
            (json!(u64::MAX), Some("18446744073709551615")),
            (json!(1.5), None),
            (json!(1e300), None),
            (json!(null), None),
            (json!(true), None),
            (json!(["17"]), None),
            (json!({"id": 17}), None),
        ] {
            assert_eq!(text(&value).as_deref(), id, "{value}");
        }
        let beyond: serde_json::Value = serde_json::from_str("18446744073709551617").unwrap();
        assert_eq!(text(&beyond), None, "rounded, two people would be one");
    }
}
