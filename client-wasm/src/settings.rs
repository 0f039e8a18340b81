//! `ClientOptions`, as far as the engine asks for them.
//!
//! Origin of the page and of `baseUrl`, or nothing; the header of the request id, empty for none, nothing for the default; whether there is a
//! `refreshAuth`; whether locks end with their page; [`retry`]; then each operation: name, match, include, exclude,
//! receipt, duplicates, `keepResponse`, [`retry`].

use samekey_core::intent::{Config, Duplicates, Operation, RequestId, Retry, Trust};
use samekey_core::select::Significant;

use crate::frame::Reader;

pub(crate) fn read(settings: &mut Reader<'_>) -> Config {
    let mut config = Config {
        origin: settings.maybe(),
        base: settings.maybe(),
        request_id: match settings.maybe() {
            None => RequestId::Auto,
            Some(name) if name.is_empty() => RequestId::Off,
            Some(name) => RequestId::Named(name),
        },
        can_refresh: settings.flag(),
        locks: settings.flag(),
        retry: retry(settings),
        ..Config::default()
    };
    while !settings.is_empty() {
        let (name, matches) = (settings.text(), settings.maybe());
        let (include, exclude) = (settings.list(), settings.list());
        let significant =
            if include.is_empty() { Significant::exclude(exclude) } else { Significant::include(include) };
        config.operations.push(Operation {
            name,
            matches,
            significant,
            receipt: match settings.text().as_str() {
                "samekey" => Trust::Samekey,
                "status" => Trust::Status,
                _ => Trust::Auto,
            },
            duplicates: match settings.text().as_str() {
                "reject" => Duplicates::Reject,
                "allow" => Duplicates::Allow,
                _ => Duplicates::Join,
            },
            keep_response: settings.number().map(|bytes| bytes as u32),
            retry: retry(settings),
        });
    }
    config
}

fn retry(settings: &mut Reader<'_>) -> Retry {
    let mut milliseconds = || settings.number().map(|ms| ms as i64);
    Retry {
        attempt_timeout_ms: milliseconds(),
        budget_ms: milliseconds(),
        base_delay_ms: milliseconds(),
        max_delay_ms: milliseconds(),
    }
}
