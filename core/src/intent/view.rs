//! An intent as JSON text, in the words of the declaration file.

use alloc::string::String;
use alloc::vec::Vec;

use super::proof::Cause;
use super::state::View;
use crate::json::write_string;

/// Writes members of an object.
struct Object(Vec<u8>);

impl Object {
    fn name(&mut self, name: &str) {
        let first = self.0.last() == Some(&b'{');
        if !first {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.0.extend_from_slice(json.as_bytes());
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        write_string(text, &mut self.0);
    }

    fn maybe(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    fn flag(&mut self, name: &str, flag: bool) {
        self.raw(name, if flag { "true" } else { "false" });
    }

    fn number(&mut self, name: &str, number: i64) {
        self.name(name);
        decimal(number, &mut self.0);
    }

    fn open(&mut self, name: &str) {
        self.name(name);
        self.0.push(b'{');
    }

    fn close(&mut self) {
        self.0.push(b'}');
    }
}

/// Digits without the machinery of `format!`.
pub(super) fn decimal(number: i64, text: &mut Vec<u8>) {
    if number < 0 {
        text.push(b'-');
    }
    let start = text.len();
    let mut rest = number.unsigned_abs();
    loop {
        text.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text[start..].reverse();
}

pub(super) fn json(view: &View<'_>) -> String {
    let record = view.record;
    let mut object = Object(Vec::with_capacity(512));
    object.0.push(b'{');
    object.text("id", &record.id);
    object.text("operation", &record.operation);
    match &record.account {
        Some(account) => object.text("account", account),
        None => object.raw("account", "null"),
    }
    object.maybe("key", record.key.as_deref());
    object.text("method", &record.method);
    object.text("url", &record.url);
    object.maybe("slot", record.slot.as_deref());
    object.maybe("label", record.label.as_deref());
    object.raw("meta", record.meta.as_deref().unwrap_or("{}"));
    object.text("state", record.state.as_str());
    object.text("effect", record.effect().as_str());
    object.flag("maybeSent", record.maybe_sent());
    object.number("deliveries", i64::from(record.deliveries));
    object.number("createdAt", record.created_at);
    object.number("updatedAt", record.updated_at);
    if let Some(deadline) = record.deadline {
        object.number("deadline", deadline);
    }
    if let Some(pause) = record.pause.filter(|_| !record.state.is_settled()) {
        object.number("nextAttemptAt", pause.until);
    }
    object.maybe("waitingFor", view.waiting_for.map(super::state::WaitingFor::as_str));
    if let Some(error) = &record.error {
        object.open("lastError");
        object.text("code", cause(error.cause));
        if error.status > 0 {
            object.number("status", i64::from(error.status));
        }
        object.maybe("requestId", error.request_id.as_deref());
        object.close();
    }
    if let Some(response) = &record.response {
        object.open("response");
        object.number("status", i64::from(response.status));
        object.name("headers");
        object.0.push(b'[');
        for (at, (name, value)) in response.headers.iter().enumerate() {
            object.0.extend_from_slice(if at == 0 { b"[" } else { b",[" });
            write_string(name, &mut object.0);
            object.0.push(b',');
            write_string(value, &mut object.0);
            object.0.push(b']');
        }
        object.0.push(b']');
        object.flag("replayed", response.replayed);
        object.close();
    }
    object.close();
    // Written from texts and ASCII.
    String::from_utf8(object.0).unwrap_or_default()
}

const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Code(code) => code.as_str(),
        Cause::Network => "network",
        Cause::Timeout => "timeout",
        Cause::NoReceipt => "no_receipt",
        Cause::NotCovered => "not_covered",
        Cause::Headers => "headers",
        Cause::Storage => "storage",
        Cause::Status => "status",
    }
}
