//! Absolute URLs in the spelling of `URL.href`, and which operation one belongs to.

use super::config::Operation;

/// An absolute URL, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// `https://shop.example`.
    pub(super) origin: &'a str,
    /// From the first slash on, without query and fragment.
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
}

impl<'a> Address<'a> {
    /// `None`: not an absolute URL of HTTP, or one with credentials in it, which would be stored.
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let url = url.split('#').next()?;
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
        let (front, query) = rest.split_once('?').map_or((rest, None), |(front, query)| (front, Some(query)));
        let host = front.find('/').unwrap_or(front.len());
        let (authority, path) = front.split_at_checked(host)?;
        if authority.is_empty() || authority.contains('@') {
            return None;
        }
        let scheme = url.len() - rest.len();
        Some(Self { origin: url.get(..scheme + host)?, path: if path.is_empty() { "/" } else { path }, query })
    }
}

/// Whether a request belongs to an operation.
pub(super) fn belongs(operation: &Operation, base: Option<&str>, method: &str, address: Address<'_>) -> bool {
    let Some(pattern) = operation.matches.as_deref() else { return false };
    let (only, target) = match pattern.split_once(' ') {
        Some((method, target)) => (Some(method), target.trim_start()),
        None => (None, pattern),
    };
    if only.is_some_and(|only| !only.eq_ignore_ascii_case(method)) {
        return false;
    }
    let path = if target.starts_with('/') {
        Some(target).filter(|_| base == Some(address.origin))
    } else {
        target.strip_prefix(address.origin)
    };
    path.is_some_and(|path| same_segments(path, address.path))
}

/// Whether a path fits a template, whose placeholders are `:name` or `{name}`, and `*` or `{*rest}` at the end.
pub(super) fn same_segments(template: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    for part in template.split('/') {
        let Some(segment) = segments.next() else { return false };
        if part == "*" || part.starts_with("{*") {
            return true;
        }
        let placeholder = part.starts_with(':') || part.starts_with('{') && part.ends_with('}');
        if if placeholder { segment.is_empty() } else { part != segment } {
            return false;
        }
    }
    segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn a_url_comes_apart() {
        let parse = |url| Address::parse(url).map(|it| (it.origin, it.path, it.query));
        assert_eq!(parse("https://a.example/b/c?d=e#f"), Some(("https://a.example", "/b/c", Some("d=e"))));
        assert_eq!(parse("http://localhost:8787?x"), Some(("http://localhost:8787", "/", Some("x"))));
        assert_eq!(parse("https://a.example/x?next=/y"), Some(("https://a.example", "/x", Some("next=/y"))));
        for url in ["/orders", "ftp://a/", "https://", "https:///x", "https://ann:secret@a.example/", "data:,x"] {
            assert_eq!(parse(url), None, "{url}");
        }
    }

    #[test]
    fn operations_take_the_requests_of_their_pattern() {
        let base = Some("https://shop.example");
        for (pattern, request, fits) in [
            ("POST /orders", "POST https://shop.example/orders?x=1", true),
            ("post /orders", "POST https://shop.example/orders", true),
            ("/orders", "PATCH https://shop.example/orders", true),
            ("POST /orders", "PATCH https://shop.example/orders", false),
            ("POST /orders", "POST https://other.example/orders", false),
            ("POST https://other.example/orders", "POST https://other.example/orders", true),
            ("POST https://other.example/orders", "POST https://other.example.evil/orders", false),
            ("POST /orders/:id/pay", "POST https://shop.example/orders/7/pay", true),
            ("POST /orders/:id/pay", "POST https://shop.example/orders//pay", false),
            ("POST /orders/:id", "POST https://shop.example/orders/7/pay", false),
            ("POST /orders/*", "POST https://shop.example/orders/7/pay", true),
            ("POST /orders", "POST https://shop.example/orders/", false),
        ] {
            let operation = Operation { matches: Some(String::from(pattern)), ..Operation::default() };
            let (method, url) = request.split_once(' ').unwrap();
            assert_eq!(belongs(&operation, base, method, Address::parse(url).unwrap()), fits, "{pattern} {request}");
        }
    }
}
