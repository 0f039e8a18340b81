//! Events of the engine, as the shell sends them: a name, then the event's fields in their order.

use alloc::boxed::Box;
use alloc::vec::Vec;

use samekey_core::intent::{Answer, Event, Failure, NotPrepared, StoredRecord, Submit, Until, Written};

use crate::frame::Reader;

/// `None`: no event has such a name.
pub(crate) fn read(it: &mut Reader<'_>) -> Option<Event> {
    let name = it.text();
    Some(match name.as_str() {
        "loaded" => Event::Loaded { records: records(it) },
        "account" => Event::Account { account: it.maybe() },
        "submit" => Event::Submit(Box::new(submit(it))),
        "wait" => Event::Wait { call: it.count(), id: it.text() },
        "resume" => Event::Resume { call: it.count(), id: it.maybe(), accept_risk: it.flag() },
        "cancel" => Event::Cancel { call: it.count(), id: it.text() },
        "dismiss" => Event::Dismiss { call: it.count(), id: it.text(), accept_risk: it.flag() },
        "signOut" => Event::SignOut { call: it.count(), discard: it.flag() },
        "aborted" => Event::Aborted { call: it.count() },
        "written" => Event::Written {
            write: it.count(),
            result: match it.text().as_str() {
                "done" => Written::Done,
                "lost" => Written::Lost,
                _ => Written::Failed,
            },
        },
        "prepared" => Event::Prepared { id: it.text(), account: it.maybe() },
        "unprepared" => Event::NotPrepared {
            id: it.text(),
            why: if it.text() == "busy" { NotPrepared::Busy } else { NotPrepared::Threw },
        },
        "answered" => Event::Answered {
            exchange: it.count(),
            answer: Box::new(Answer {
                status: it.count() as u16,
                headers: it.pairs(),
                body: it.bytes().unwrap_or_default(),
            }),
        },
        "failed" => Event::Failed {
            exchange: it.count(),
            why: match it.text().as_str() {
                "not_sent" => Failure::NotSent,
                "timeout" => Failure::Timeout,
                _ => Failure::Network,
            },
        },
        "refreshed" => Event::Refreshed { id: it.text(), again: it.flag() },
        "told" => Event::Told,
        "tick" => Event::Tick,
        "online" => Event::Online(it.flag()),
        _ => return None,
    })
}

fn records(it: &mut Reader<'_>) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    while !it.is_empty() {
        records.push(StoredRecord {
            id: it.text(),
            account: it.maybe(),
            revision: it.number().unwrap_or(0),
            format: it.count(),
            data: it.bytes().unwrap_or_default(),
        });
    }
    records
}

fn submit(it: &mut Reader<'_>) -> Submit {
    let call = it.count();
    // For how many milliseconds somebody is patient; whether durable is enough.
    let until = match (it.number(), it.flag()) {
        (Some(patience), _) => Until::Patience(patience as u32),
        (None, true) => Until::Durable,
        (None, false) => Until::Outcome,
    };
    Submit {
        call,
        until,
        account: it.maybe(),
        method: it.text(),
        url: it.text(),
        operation: it.maybe(),
        headers: it.pairs(),
        body: it.bytes(),
        credentials: it.maybe(),
        slot: it.maybe(),
        another: it.flag(),
        key: it.maybe(),
        label: it.maybe(),
        meta: it.maybe(),
    }
}
