//! The bytes of a record.
//!
//! Numbers are LEB128 (signed ones in zigzag), texts and bytes are framed by their length, `None` is a zero byte and
//! `Some` a one. There are no names and no types in it, so the fields of [`FORMAT`] and their order never change:
//! what a newer library wants to keep is appended under a greater number. A reader knows all formats up to its own and
//! fills what an older one lacks; a record of a newer one is left alone, unread and unchanged, for the tab that wrote
//! it.

use alloc::string::String;
use alloc::vec::Vec;

use super::config::{Retry, Trust};
use super::proof::Cause;
use super::record::{LastError, Lease, Millis, Pause, Payload, Record, Response, Step, StoredRecord};
use super::state::{Effect, State};
use crate::problem::Code;

/// The format that is written.
pub(super) const FORMAT: u32 = 1;

/// Appends to a record.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, mut value: u64) {
        while value > 127 {
            self.0.push(value as u8 | 128);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(super) fn text(&mut self, text: Option<&str>) {
        self.option(text, |writer, text| writer.bytes(text.as_bytes()));
    }
}

/// Takes from a record; what is not there or makes no sense is `None`, for good.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        self.number().map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn string(&mut self) -> Option<String> {
        core::str::from_utf8(self.bytes()?).ok().map(String::from)
    }

    /// The outer `None`: it cannot be read.
    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    pub(super) fn text(&mut self) -> Option<Option<String>> {
        self.option(Self::string)
    }
}

const TRUSTS: [Trust; 3] = [Trust::Auto, Trust::Samekey, Trust::Status];
const STEPS: [Step; 3] = [Step::Deliver, Step::Ask, Step::Close];
const EFFECTS: [Effect; 3] = [Effect::No, Effect::Yes, Effect::Unknown];
/// The first stands for every code.
const CAUSES: [Cause; 8] = [
    Cause::Code(Code::OperationInProgress),
    Cause::Network,
    Cause::Timeout,
    Cause::NoReceipt,
    Cause::NotCovered,
    Cause::Headers,
    Cause::Storage,
    Cause::Status,
];

impl Writer {
    fn one_of<T: PartialEq>(&mut self, value: &T, all: &[T]) {
        // What is not listed is written as one that no reader knows.
        self.0.push(all.iter().position(|one| one == value).map_or(u8::MAX, |at| at as u8));
    }

    fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    fn time(&mut self, time: Option<Millis>) {
        self.option(time, Self::signed);
    }

    fn pause(&mut self, pause: Pause) {
        self.signed(pause.until);
        self.signed(pause.length);
    }

    fn headers(&mut self, headers: &[(String, String)]) {
        self.number(headers.len() as u64);
        for (name, value) in headers {
            self.bytes(name.as_bytes());
            self.bytes(value.as_bytes());
        }
    }

    fn blob(&mut self, bytes: Option<&[u8]>) {
        self.option(bytes, Self::bytes);
    }

    fn small(&mut self, number: Option<u32>) {
        self.option(number, |writer, number| writer.number(number.into()));
    }

    fn cause(&mut self, cause: Cause) {
        match cause {
            Cause::Code(code) => {
                self.0.push(0);
                self.bytes(code.as_str().as_bytes());
            }
            cause => self.one_of(&cause, &CAUSES),
        }
    }
}

impl Reader<'_> {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.byte()?)).copied()
    }

    fn flag(&mut self) -> Option<bool> {
        self.one_of(&[false, true])
    }

    fn time(&mut self) -> Option<Option<Millis>> {
        self.option(Self::signed)
    }

    fn pause(&mut self) -> Option<Pause> {
        Some(Pause { until: self.signed()?, length: self.signed()? })
    }

    fn headers(&mut self) -> Option<Vec<(String, String)>> {
        let count = self.number()?;
        // Each takes two bytes at least, so a count gone wild ends the reading and not the memory.
        let mut headers = Vec::new();
        for _ in 0..count {
            headers.push((self.string()?, self.string()?));
        }
        Some(headers)
    }

    fn blob(&mut self) -> Option<Option<Vec<u8>>> {
        self.option(|reader| reader.bytes().map(Vec::from))
    }

    fn word(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn small(&mut self) -> Option<Option<u32>> {
        self.option(Self::word)
    }

    fn status(&mut self) -> Option<u16> {
        u16::try_from(self.number()?).ok()
    }

    fn cause(&mut self) -> Option<Cause> {
        match self.one_of(&CAUSES)? {
            // A code that is not known any more is nothing that a record is refused for.
            Cause::Code(_) => Some(Code::from_name(&self.string()?).map_or(Cause::Status, Cause::Code)),
            cause => Some(cause),
        }
    }
}

/// The bytes of a record. Whose it is, and its id, stand beside them.
pub(super) fn write(record: &Record) -> Vec<u8> {
    let mut to = Writer::default();
    to.bytes(record.operation.as_bytes());
    to.bytes(record.method.as_bytes());
    to.bytes(record.url.as_bytes());
    to.text(record.slot.as_deref());
    to.text(record.label.as_deref());
    to.text(record.meta.as_deref());
    to.bytes(&record.print);
    to.headers(&record.payload.headers);
    to.blob(record.payload.body.as_deref());
    to.text(record.payload.credentials.as_deref());

    to.one_of(&record.trust, &TRUSTS);
    to.small(record.retry.attempt_timeout_ms);
    to.option(record.retry.budget_ms, Writer::number);
    to.small(record.retry.base_delay_ms);
    to.small(record.retry.max_delay_ms);
    to.number(record.keep_response.into());

    to.one_of(&record.state, &State::ALL);
    to.signed(record.created_at);
    to.signed(record.updated_at);
    to.text(record.key.as_deref());
    to.time(record.first_sent_at);
    to.time(record.server_before);
    to.time(record.offset);
    to.time(record.deadline);
    to.number(record.deliveries.into());
    to.flag(record.ambiguous);
    to.number(record.failures.into());
    to.number(record.unreceipted.into());
    to.one_of(&record.step, &STEPS);
    to.option(record.pause, Writer::pause);
    to.option(record.lease.as_ref(), |to, lease| {
        to.bytes(lease.owner.as_bytes());
        to.pause(lease.pause);
    });
    to.flag(record.closing);
    to.text(record.after.as_deref());
    to.flag(record.covered);
    to.flag(record.hidden);
    to.number(record.refused_auth.into());
    to.flag(record.other_actor);
    to.number(record.minted.into());
    to.text(record.actor.as_deref());
    to.text(record.status_url.as_deref());
    to.time(record.remember);
    to.option(record.error.as_ref(), |to, error| {
        to.cause(error.cause);
        to.option(error.status, |to, status| to.number(status.into()));
        to.text(error.request_id.as_deref());
    });

    to.option(record.effect.as_ref(), |to, effect| to.one_of(effect, &EFFECTS));
    to.time(record.settled_at);
    to.flag(record.taken);
    to.flag(record.forgotten);
    to.option(record.response.as_ref(), |to, response| {
        let kept = |body: &&Vec<u8>| body.len() as u64 <= u64::from(record.keep_response);
        to.number(response.status.into());
        to.headers(&response.headers);
        to.blob(response.body.as_ref().filter(kept).map(Vec::as_slice));
        to.flag(response.replayed);
    });
    to.0
}

/// A record as it was written; `None` where it cannot be read, by this library or at all.
pub(super) fn read(stored: &StoredRecord) -> Option<Record> {
    if stored.format != FORMAT {
        return None;
    }
    let mut from = Reader(&stored.data);
    let record = Record {
        id: stored.id.clone(),
        account: stored.account.clone(),
        operation: from.string()?,
        method: from.string()?,
        url: from.string()?,
        slot: from.text()?,
        label: from.text()?,
        meta: from.text()?,
        print: from.bytes()?.try_into().ok()?,
        payload: Payload { headers: from.headers()?, body: from.blob()?, credentials: from.text()? },

        trust: from.one_of(&TRUSTS)?,
        retry: Retry {
            attempt_timeout_ms: from.small()?,
            budget_ms: from.option(Reader::number)?,
            base_delay_ms: from.small()?,
            max_delay_ms: from.small()?,
        },
        keep_response: from.word()?,

        state: from.one_of(&State::ALL)?,
        created_at: from.signed()?,
        updated_at: from.signed()?,
        key: from.text()?,
        first_sent_at: from.time()?,
        server_before: from.time()?,
        offset: from.time()?,
        deadline: from.time()?,
        deliveries: from.word()?,
        ambiguous: from.flag()?,
        failures: from.word()?,
        unreceipted: from.word()?,
        step: from.one_of(&STEPS)?,
        pause: from.option(Reader::pause)?,
        lease: from.option(|from| Some(Lease { owner: from.string()?, pause: from.pause()? }))?,
        closing: from.flag()?,
        after: from.text()?,
        covered: from.flag()?,
        hidden: from.flag()?,
        refused_auth: from.word()?,
        other_actor: from.flag()?,
        minted: from.word()?,
        actor: from.text()?,
        status_url: from.text()?,
        remember: from.time()?,
        error: from.option(|from| {
            Some(LastError { cause: from.cause()?, status: from.option(Reader::status)?, request_id: from.text()? })
        })?,

        effect: from.option(|from| from.one_of(&EFFECTS))?,
        settled_at: from.time()?,
        taken: from.flag()?,
        forgotten: from.flag()?,
        response: from.option(|from| {
            Some(Response {
                status: from.status()?,
                headers: from.headers()?,
                body: from.blob()?,
                replayed: from.flag()?,
            })
        })?,
    };
    from.0.is_empty().then_some(record)
}
