//! What of an answer may be stored and replayed.

/// Response headers that are stored, beyond those an operation names.
pub const STORED_HEADERS: [&str; 10] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "vary",
];

/// Never stored, whatever an operation names: credentials (a login differs on replay), fields of one
/// connection (RFC 9110, section 7.6.1), framing, and what samekey or a CORS layer says anew each time.
const NEVER_STORED: [&str; 17] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "date",
    "idempotent-replayed",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-request-id",
];

/// Whether a header of an answer is stored. `name` is in lower case; `extra` are the operation's own,
/// `connection` the names that the answer's `Connection` field lists.
pub fn is_stored(name: &str, extra: &[impl AsRef<str>], connection: &[impl AsRef<str>]) -> bool {
    let named = |list: &[&str]| list.contains(&name);
    !named(&NEVER_STORED)
        && !name.starts_with("samekey-")
        && !name.starts_with("access-control-")
        && !connection.iter().any(|field| field.as_ref().eq_ignore_ascii_case(name))
        && (named(&STORED_HEADERS) || extra.iter().any(|field| field.as_ref().eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [&str; 0] = [];

    #[test]
    fn only_what_is_allowed_is_stored() {
        for name in STORED_HEADERS {
            assert!(is_stored(name, &NONE, &NONE), "{name}");
        }
        assert!(!is_stored("x-total", &NONE, &NONE));
        assert!(is_stored("x-total", &["X-Total"], &NONE));
        assert!(!is_stored("etag", &NONE, &["ETag"]), "named by Connection");
    }

    #[test]
    fn credentials_are_never_stored_even_if_asked_for() {
        for name in NEVER_STORED.into_iter().chain(["samekey-state", "access-control-allow-origin"]) {
            assert!(!is_stored(name, &[name], &NONE), "{name}");
        }
    }
}
