//! `[operation.probe]`: whom to ask whether a command took effect.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::Reader;
use super::keys::PROBE;
use super::value;
use crate::cli::actor::Place;
use crate::cli::settings::duration;
use crate::probe::Probe;
use crate::proxy::probe::ProbeTable;

/// A probe as it was written down; its address may lie on the upstream.
#[derive(Clone, Debug)]
pub(crate) struct ProbeSettings {
    pub(crate) place: Place,
    pub(crate) table: ProbeTable,
}

impl ProbeSettings {
    /// Reads one; what is wrong is in the reader's errors.
    pub(super) fn read(table: &DeTable<'_>, line: usize, reader: &mut Reader<'_>) -> Option<Self> {
        let known: Vec<String> = PROBE.iter().map(|key| (*key).to_owned()).collect();
        let mut place = None;
        let mut probe = ProbeTable {
            headers: HeaderMap::new(),
            done: vec![StatusCode::OK],
            absent: vec![StatusCode::NOT_FOUND],
            media_type: None,
            timeout: Probe::TIMEOUT,
            max_age: Probe::MAX_AGE,
        };
        let mut fine = true;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if !PROBE.contains(&name) {
                reader.unknown(key, &known);
                continue;
            }
            let said = match name {
                "url" => value::text(value.get_ref()).and_then(|text| url(&text)).map(|url| place = Some(url)),
                "headers" => headers(value.get_ref()).map(|headers| probe.headers = headers),
                "done" => statuses(value.get_ref(), is_done).map(|statuses| probe.done = statuses),
                "absent" => statuses(value.get_ref(), is_absent).map(|statuses| probe.absent = statuses),
                "media_type" => value::text(value.get_ref())
                    .and_then(|text| media_type(&text))
                    .map(|media_type| probe.media_type = Some(media_type)),
                "timeout" => time(value.get_ref()).map(|time| probe.timeout = time),
                _ => time(value.get_ref()).map(|time| probe.max_age = time),
            };
            if let Err(error) = said {
                fine = false;
                reader.errors.add(Some(reader.line(value.span().start)), format!("probe.{name}: {error}"));
            }
        }
        if let Some(both) = probe.done.iter().find(|status| probe.absent.contains(status)) {
            fine = false;
            let both = both.as_u16();
            reader.errors.add(Some(line), format!("probe: {both} stands in done and in absent; leave it in one"));
        }
        if place.is_none() && !table.iter().any(|(key, _)| key.get_ref() == "url") {
            reader.errors.add(Some(line), "a probe needs its url; write url = \"/internal/orders/by-key\"");
        }
        Some(Self { place: place?, table: probe }).filter(|_| fine)
    }
}

fn url(text: &str) -> Result<Place, String> {
    text.parse().map_err(|error: String| format!("{error}; write for instance /internal/orders/by-key"))
}

fn time(value: &DeValue<'_>) -> Result<Duration, String> {
    let time = match value {
        DeValue::Integer(number) => duration(number.as_str()),
        other => value::text(other).and_then(|text| duration(&text)),
    }?;
    if time.is_zero() { Err("it must be greater than zero".into()) } else { Ok(time) }
}

/// `{ authorization = "env:PROBE_TOKEN" }`: what is secret stands in the environment.
fn headers(value: &DeValue<'_>) -> Result<HeaderMap, String> {
    let table = value.as_table().ok_or("a table; write { authorization = \"env:PROBE_TOKEN\" }")?;
    let mut headers = HeaderMap::new();
    for (key, value) in table {
        let (name, value) = header(key, value.get_ref())?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn header(key: &Spanned<std::borrow::Cow<'_, str>>, value: &DeValue<'_>) -> Result<(HeaderName, HeaderValue), String> {
    let key = key.get_ref();
    let name: HeaderName = key.parse().map_err(|_| format!("{key:?} is no header name"))?;
    let taken = ["host", "content-length", "transfer-encoding", "connection", "idempotency-key", "cache-control"];
    if taken.contains(&name.as_str()) || name.as_str().starts_with("samekey-") {
        return Err(format!("{name} is set by samekey; leave it out"));
    }
    let text = value::text(value)?;
    let text = match text.strip_prefix("env:") {
        None => text,
        Some(variable) => match std::env::var(variable) {
            Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
            Ok(_) => return Err(format!("{name}: the environment variable {variable} is empty")),
            Err(_) => return Err(format!("{name}: there is no environment variable {variable}; set it for samekey")),
        },
    };
    let mut value =
        HeaderValue::from_str(&text).map_err(|_| format!("{name}: its value cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn statuses(value: &DeValue<'_>, fits: fn(StatusCode) -> Result<(), String>) -> Result<Vec<StatusCode>, String> {
    let items = value.as_array().ok_or("no list; write it in brackets: [404]")?;
    if items.is_empty() {
        return Err("an empty list; leave the key out for its default".into());
    }
    let one = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::Integer(number) => {
            let status = StatusCode::from_bytes(number.as_str().as_bytes());
            let status = status.map_err(|_| format!("{} is no status; write for instance 404", number.as_str()))?;
            fits(status).map(|()| status)
        }
        _ => Err("a status is a number; write for instance [404]".into()),
    };
    items.iter().map(one).collect()
}

/// What a question may be answered with by whoever stands in between, or by a service that is not well.
fn says_nothing(status: StatusCode) -> bool {
    status.is_informational()
        || status.is_redirection()
        || status.is_server_error()
        || [401, 403, 407, 408, 425, 429, 499].contains(&status.as_u16())
}

fn is_done(status: StatusCode) -> Result<(), String> {
    if says_nothing(status) {
        return Err(format!("{} does not say that a command happened; leave it out", status.as_u16()));
    }
    Ok(())
}

fn is_absent(status: StatusCode) -> Result<(), String> {
    if says_nothing(status) || status.is_success() {
        return Err(format!("{} does not say that nothing happened; write for instance [404]", status.as_u16()));
    }
    Ok(())
}

/// In lower case. What every route of a service answers in proves nothing: its 404 may be that of a route that is
/// not there.
fn media_type(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_lowercase();
    let (kind, subtype) = text.split_once('/').unwrap_or((&text, ""));
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    if !token(kind) || !token(subtype) {
        return Err(format!(
            "{text:?} is no media type without parameters; write for instance application/vnd.shop.probe+json"
        ));
    }
    let common = ["json", "problem+json", "xml", "problem+xml", "octet-stream", "x-www-form-urlencoded"];
    if kind == "text" || kind == "application" && common.contains(&subtype) {
        return Err(format!(
            "{text} is what other routes answer in, too: the 404 of a route that is not there would count as \
             \"nothing happened\". Let the probe answer with Samekey-Outcome, or in a media type of its own: \
             application/vnd.shop.probe+json"
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_must_be_the_probes_own() {
        assert_eq!(media_type(" Application/VND.shop.probe+json "), Ok("application/vnd.shop.probe+json".into()));
        for common in ["application/json", "text/html", "text/plain", "application/problem+json"] {
            assert!(media_type(common).unwrap_err().contains("Samekey-Outcome"), "{common}");
        }
        for wrong in ["json", "application/", "a/b; c=d", "/"] {
            assert!(media_type(wrong).unwrap_err().contains("no media type"), "{wrong}");
        }
    }
}
