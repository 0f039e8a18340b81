//! Actions of the engine for the shell: how many values follow, a name, the action's fields in their order.
//!
//! Wherever an action is about how an intent looks, its view and the body of its response come along; and behind the
//! actions, when one of them changed the outbox, the outbox in its order.

use alloc::string::String;
use alloc::vec::Vec;

use samekey_core::intent::{Action, Engine, Turn};

use crate::frame::Writer;

pub(crate) fn write(engine: &Engine, actions: Vec<Action>) -> Vec<u8> {
    let mut out = Writer::default();
    let mut moved = false;
    for action in actions {
        moved |= matches!(action, Action::Changed { .. } | Action::Gone { .. } | Action::Done { .. });
        one(engine, action, &mut out);
    }
    if moved {
        start(&mut out, 2, "outbox");
        out.list(&engine.ids().collect::<Vec<_>>());
    }
    out.0
}

#[inline(never)]
fn start(out: &mut Writer, values: u64, name: &str) {
    out.number(values);
    out.text(name);
}

#[inline(never)]
fn view(engine: &Engine, id: &str, out: &mut Writer) {
    match engine.view(id) {
        Some(view) => {
            out.text(&view.to_json());
            out.bytes(view.response().and_then(|response| response.body.as_deref()));
        }
        None => {
            out.nothing();
            out.nothing();
        }
    }
}

fn one(engine: &Engine, action: Action, out: &mut Writer) {
    match action {
        Action::Read => start(out, 1, "read"),
        Action::Write { write, record, expected } => {
            start(out, 8, "write");
            out.number(u64::from(write));
            out.text(&record.id);
            out.maybe(record.account.as_deref());
            out.number(record.revision);
            out.number(u64::from(record.format));
            out.bytes(Some(&record.data));
            match expected {
                Some(expected) => out.number(expected),
                None => out.nothing(),
            }
        }
        Action::Erase { write, id, expected } => {
            start(out, 4, "erase");
            out.number(u64::from(write));
            out.text(&id);
            out.number(expected);
        }
        Action::Tell => start(out, 1, "tell"),
        Action::WhoIsIt => start(out, 1, "whoIsIt"),
        Action::Prepare { id, delivery, steal } => {
            start(out, 4, "prepare");
            out.text(&id);
            out.number(u64::from(delivery));
            out.number(u64::from(steal));
        }
        Action::Fetch { exchange, id, request, timeout_ms } => {
            start(out, 9, "fetch");
            out.number(u64::from(exchange));
            out.maybe(id.as_deref());
            out.text(&request.method);
            out.text(&request.url);
            let mut headers: Vec<&str> = Vec::new();
            for (name, value) in &request.headers {
                headers.push(name);
                headers.push(value);
            }
            out.list(&headers);
            out.bytes(request.body.as_deref());
            out.maybe(request.credentials.as_deref());
            out.number(u64::from(timeout_ms));
        }
        Action::Release { id } => named(out, "release", &id, 0),
        Action::RefreshAuth { id, delivery } => named(out, "refreshAuth", &id, u64::from(delivery)),
        Action::Accepted { call, id, joined } => settled(engine, out, call, &id, joined),
        Action::Resolved { call, id, joined } => settled(engine, out, call, &id, joined),
        Action::Done { call, ids } => {
            start(out, 3, "done");
            out.number(u64::from(call));
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            out.list(&ids);
        }
        Action::Rejected { call, code, id } => {
            start(out, 4, "rejected");
            out.number(u64::from(call));
            out.text(code.as_str());
            out.maybe(id.as_deref());
        }
        Action::Changed { id, turn } => {
            start(out, 5, "changed");
            out.text(&id);
            out.text(match turn {
                Turn::Moved => "change",
                Turn::Settled => "settled",
                Turn::Attention => "attention",
            });
            view(engine, &id, out);
        }
        Action::Gone { id } => named(out, "gone", &id, 0),
        Action::Wake { after_ms } => {
            start(out, 2, "wake");
            out.number(u64::from(after_ms));
        }
        Action::Log { warn, code, id } => {
            start(out, 4, "log");
            out.number(u64::from(warn));
            out.text(code);
            out.maybe(id.as_deref());
        }
    }
}

#[inline(never)]
fn named(out: &mut Writer, name: &str, id: &str, number: u64) {
    start(out, 3, name);
    out.text(id);
    out.number(number);
}

/// `Accepted` and `Resolved` settle a promise alike; what the promise makes of the intent is its own matter.
#[inline(never)]
fn settled(engine: &Engine, out: &mut Writer, call: u32, id: &str, joined: bool) {
    start(out, 6, "settled");
    out.number(u64::from(call));
    out.text(id);
    out.number(u64::from(joined));
    view(engine, id, out);
}
