//! Who asked, for whom and where: `Forwarded` (RFC 7239), its older spellings, and `Via`.
//!
//! What a trusted proxy in front says is passed on and added to. From anybody else it is a claim without proof and is
//! replaced by what this server saw itself, in every spelling: behind CGI-like interfaces `X_Forwarded_For` is the same.

use std::net::IpAddr;

use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, VIA};
use http::{Version, request::Parts};

use crate::layer::{Peer, Trusted};
use crate::names;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Tells the upstream where a request came from, and that it passed here.
pub(super) fn tell(parts: &mut Parts, trusted: &Trusted) {
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.to_canonical());
    let believed = peer.is_some_and(|peer| trusted.contains(peer));
    if !believed {
        strip(&mut parts.headers);
    }
    let headers = &mut parts.headers;
    strip_lookalikes(headers);
    append(headers, VIA, via(parts.version));
    let host = headers.get(HOST).cloned();
    if let Some(peer) = peer {
        let mut element = format!("for={}", node(peer));
        if let Some(host) = host.as_ref().and_then(|host| host.to_str().ok()).filter(|host| !host.contains(['"', '\\']))
        {
            element.push_str(&format!(";host=\"{host}\""));
        }
        element.push_str(";proto=http");
        append(headers, FORWARDED, &element);
        append(headers, FOR, &peer.to_string());
    }
    headers.entry(PROTO).or_insert(HeaderValue::from_static("http"));
    if let Some(host) = host {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
}

fn via(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2.0 samekey",
        Version::HTTP_10 => "1.0 samekey",
        _ => "1.1 samekey",
    }
}

/// RFC 7239, section 6: an IPv6 address stands in brackets and quotes.
fn node(peer: IpAddr) -> String {
    match peer {
        IpAddr::V4(peer) => peer.to_string(),
        IpAddr::V6(peer) => format!("\"[{peer}]\""),
    }
}

/// One line, with what was there before at its front.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let mut list: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    list.retain(|line| !line.trim_ascii().is_empty());
    list.push(element.as_bytes());
    if let Ok(line) = HeaderValue::from_bytes(&list.join(&b", "[..])) {
        headers.insert(name, line);
    }
}

fn strip(headers: &mut HeaderMap) {
    remove(headers, |name| name == "forwarded" || name == "x-real-ip" || name.starts_with("x-forwarded-"));
}

/// Names that look like ours or like a proxy's to whoever does not tell `_` from `-`.
fn strip_lookalikes(headers: &mut HeaderMap) {
    remove(headers, |name| {
        let dashed = name.contains('_').then(|| name.replace('_', "-"));
        dashed.is_some_and(|name| {
            ["forwarded", "x-real-ip", names::KEY.as_str(), names::REQUEST_ID.as_str()].contains(&name.as_str())
                || name.starts_with("x-forwarded-")
                || name.starts_with("samekey-")
        })
    });
}

fn remove(headers: &mut HeaderMap, which: impl Fn(&str) -> bool) {
    let gone: Vec<HeaderName> = headers.keys().filter(|name| which(name.as_str())).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn told(peer: &str, lines: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut request = Request::get("/").header("host", "shop.example:8080");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        parts.extensions.insert(Peer(peer.parse().unwrap()));
        tell(&mut parts, &Trusted::Loopback);
        let mut told: Vec<String> =
            parts.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        told.sort();
        told
    }

    #[test]
    fn a_stranger_is_described_as_seen() {
        let expected = [
            "forwarded: for=\"[2001:db8::1]\";host=\"shop.example:8080\";proto=http",
            "host: shop.example:8080",
            "via: 1.1 samekey",
            "x-forwarded-for: 2001:db8::1",
            "x-forwarded-host: shop.example:8080",
            "x-forwarded-proto: http",
        ];
        assert_eq!(told("2001:db8::1", &[]), expected);
        let forged = [
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "admin.example"),
            ("x-forwarded-port", "443"),
            ("x-real-ip", "10.0.0.1"),
            ("x_forwarded_for", "10.0.0.1"),
            ("samekey_attempt", "1"),
            ("idempotency_key", "k"),
        ];
        assert_eq!(told("2001:db8::1", &forged), expected);
    }

    #[test]
    fn a_trusted_proxy_is_believed_and_added_to() {
        let lines = [
            ("forwarded", "for=192.0.2.7;proto=https"),
            ("via", "2.0 edge"),
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-for", "192.0.2.8"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "public.example"),
        ];
        let expected = [
            "forwarded: for=192.0.2.7;proto=https, for=127.0.0.1;host=\"shop.example:8080\";proto=http",
            "host: shop.example:8080",
            "via: 2.0 edge, 1.1 samekey",
            "x-forwarded-for: 192.0.2.7, 192.0.2.8, 127.0.0.1",
            "x-forwarded-host: public.example",
            "x-forwarded-proto: https",
        ];
        assert_eq!(told("127.0.0.1", &lines), expected);
    }
}
