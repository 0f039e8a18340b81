//! `traceparent` of W3C Trace Context, read for the log. It is passed on as it came: nothing here exports spans, and
//! a parent that nobody recorded would tear the trace apart.

use http::HeaderMap;

/// The trace that a request belongs to, if exactly one valid `traceparent` says so.
pub(crate) fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all("traceparent").iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let line = line.to_str().ok()?;
    let mut parts = line.splitn(5, '-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let some = |text: &str| text.bytes().any(|byte| byte != b'0');
    let known = match version {
        // What comes after is no part of this version.
        "00" => parts.next().is_none(),
        "ff" => false,
        version => hex(version, 2),
    };
    let valid = known && hex(trace, 32) && some(trace) && hex(parent, 16) && some(parent) && hex(flags, 2);
    valid.then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn only_what_the_recommendation_calls_valid_counts() {
        let parent = "00f067aa0ba902b7";
        for (line, valid) in [
            (format!("00-{TRACE}-{parent}-01"), true),
            (format!("00-{TRACE}-{parent}-00"), true),
            (format!("cc-{TRACE}-{parent}-01-what-comes-later"), true),
            (format!("00-{TRACE}-{parent}-01-more"), false),
            (format!("ff-{TRACE}-{parent}-01"), false),
            (format!("00-{}-{parent}-01", TRACE.to_uppercase()), false),
            (format!("00-{}-{parent}-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), false),
            (format!("00-{TRACE}x-{parent}-01"), false),
            (format!("00-{TRACE}-{parent}"), false),
            (format!("0x-{TRACE}-{parent}-01"), false),
            ("nonsense".into(), false),
        ] {
            let headers =
                HeaderMap::from_iter([("traceparent".parse().unwrap(), HeaderValue::from_str(&line).unwrap())]);
            assert_eq!(trace_id(&headers), valid.then_some(TRACE), "{line}");
        }
        let line = HeaderValue::from_str(&format!("00-{TRACE}-{parent}-01")).unwrap();
        let mut twice = HeaderMap::new();
        twice.append("traceparent", line.clone());
        twice.append("traceparent", line);
        assert_eq!(trace_id(&twice), None);
        assert_eq!(trace_id(&HeaderMap::new()), None);
    }
}
