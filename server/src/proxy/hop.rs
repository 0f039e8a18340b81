//! Headers that belong to one connection and go no further (RFC 9110 section 7.6.1).

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, TE,
    TRANSFER_ENCODING, UPGRADE,
};

/// `Trailer` is none of them: it announces what the message carries (RFC 9110, section 6.6.2).
const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What `Connection` cannot take away, whoever names it: RFC 9110 forbids to name fields meant for
/// every recipient, and a client that could strip the key or the attempt on its way to the
/// upstream would strip the upstream's protection.
const END_TO_END: [HeaderName; 7] = [
    AUTHORIZATION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    COOKIE,
    HOST,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-request-id"),
];

/// Takes out of a request what ends at this proxy.
pub(super) fn strip_request(headers: &mut HeaderMap) {
    strip(headers);
    // Answered here already: the body is asked for when it is read.
    headers.remove(EXPECT);
}

/// Takes out of an answer what ends at this proxy.
pub(super) fn strip_response(headers: &mut HeaderMap) {
    strip(headers);
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| !is_end_to_end(name))
        .collect();
    // Transfer-Encoding overrides Content-Length (RFC 9112 section 6.3). It ends here, so a length
    // beside it would start to count, and it may be a lie.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

fn is_end_to_end(name: &HeaderName) -> bool {
    END_TO_END.contains(name) || name.as_str().starts_with("samekey-")
}

/// Whether the body came in a transfer coding other than `chunked`. Such a coding would be lost
/// with the header, and the other side would take the coded bytes for the content.
pub(super) fn has_foreign_coding(headers: &HeaderMap) -> bool {
    headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(lines: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        strip_request(&mut headers);
        headers.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn what_belongs_to_the_connection_ends_here() {
        let left = stripped(&[
            ("connection", "close, X-Trace"),
            ("connection", "x-other,, "),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("expect", "100-continue"),
            ("x-trace", "1"),
            ("x-other", "1"),
            ("x-kept", "1"),
        ]);
        assert_eq!(left, ["x-kept"]);
    }

    #[test]
    fn a_client_cannot_strip_what_protects_the_upstream() {
        let left = stripped(&[
            ("connection", "Idempotency-Key, Samekey-Attempt, Authorization, Host"),
            ("idempotency-key", "k"),
            ("samekey-attempt", "1"),
            ("authorization", "Bearer t"),
            ("host", "shop.example"),
        ]);
        assert_eq!(left.len(), 4, "{left:?}");
    }

    #[test]
    fn a_length_beside_a_coding_does_not_survive_it() {
        assert!(stripped(&[("transfer-encoding", "chunked"), ("content-length", "3")]).is_empty());
        assert_eq!(stripped(&[("content-length", "3")]), ["content-length"]);
    }

    #[test]
    fn only_chunked_is_undone_here() {
        let mut headers = HeaderMap::new();
        assert!(!has_foreign_coding(&headers));
        headers.insert(TRANSFER_ENCODING, "Chunked".parse().unwrap());
        assert!(!has_foreign_coding(&headers));
        headers.insert(TRANSFER_ENCODING, "gzip, chunked".parse().unwrap());
        assert!(has_foreign_coding(&headers));
    }
}
