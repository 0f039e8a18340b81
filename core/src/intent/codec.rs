//! The bytes of a record.
//!
//! Numbers are LEB128 (signed ones in zigzag), texts and bytes are framed by their length, `None` is a zero byte and
//! `Some` a one. There are no names and no types in it, so the fields of [`FORMAT`] and their order never change:
//! what a newer library wants to keep is appended under a greater number. A reader knows all formats up to its own and
//! fills what an older one lacks; a record of a newer one is left alone, unread and unchanged, for the tab that wrote
//! it.

use alloc::string::String;
use alloc::vec::Vec;

use super::config::Trust;
use super::proof::Cause;
use super::record::{LastError, Lease, Millis, Pause, Record, Response, Step, StoredRecord};
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

/// The fields of a record by their kind, each kind in the order in which it is written.
impl Record {
    fn texts(&mut self) -> [&mut Option<String>; 8] {
        [
            &mut self.slot,
            &mut self.label,
            &mut self.meta,
            &mut self.key,
            &mut self.after,
            &mut self.actor,
            &mut self.status_url,
            &mut self.payload.credentials,
        ]
    }

    fn times(&mut self) -> [&mut Option<Millis>; 10] {
        [
            &mut self.retry.attempt_timeout_ms,
            &mut self.retry.budget_ms,
            &mut self.retry.base_delay_ms,
            &mut self.retry.max_delay_ms,
            &mut self.first_sent_at,
            &mut self.server_before,
            &mut self.offset,
            &mut self.deadline,
            &mut self.remember,
            &mut self.settled_at,
        ]
    }

    fn counts(&mut self) -> [&mut u32; 6] {
        [
            &mut self.keep_response,
            &mut self.deliveries,
            &mut self.failures,
            &mut self.unreceipted,
            &mut self.refused_auth,
            &mut self.minted,
        ]
    }

    fn flags(&mut self) -> [&mut bool; 8] {
        [
            &mut self.out,
            &mut self.ambiguous,
            &mut self.closing,
            &mut self.covered,
            &mut self.hidden,
            &mut self.other_actor,
            &mut self.taken,
            &mut self.forgotten,
        ]
    }
}

/// Where something stands in a list; what is not listed is written as something that no reader knows.
fn place<T: PartialEq>(value: &T, all: &[T]) -> u8 {
    all.iter().position(|one| one == value).map_or(u8::MAX, |at| at as u8)
}

impl Writer {
    fn maybe(&mut self, bytes: Option<&[u8]>) {
        self.0.push(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    fn pause(&mut self, pause: Option<Pause>) {
        self.0.push(u8::from(pause.is_some()));
        if let Some(pause) = pause {
            self.signed(pause.until);
            self.signed(pause.length);
        }
    }

    fn headers(&mut self, headers: &[(String, String)]) {
        self.number(headers.len() as u64);
        for (name, value) in headers {
            self.bytes(name.as_bytes());
            self.bytes(value.as_bytes());
        }
    }
}

impl Reader<'_> {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.byte()?)).copied()
    }

    /// Whether something follows.
    fn some(&mut self) -> Option<bool> {
        self.one_of(&[false, true])
    }

    fn maybe(&mut self) -> Option<Option<Vec<u8>>> {
        Some(if self.some()? { Some(self.bytes()?.into()) } else { None })
    }

    fn text(&mut self) -> Option<Option<String>> {
        match self.maybe()? {
            Some(bytes) => String::from_utf8(bytes).ok().map(Some),
            None => Some(None),
        }
    }

    fn pause(&mut self) -> Option<Option<Pause>> {
        Some(if self.some()? { Some(Pause { until: self.signed()?, length: self.signed()? }) } else { None })
    }

    fn headers(&mut self) -> Option<Vec<(String, String)>> {
        // Each takes two bytes at least, so a count gone wild ends the reading and not the memory.
        let mut headers = Vec::new();
        for _ in 0..self.number()? {
            headers.push((self.string()?, self.string()?));
        }
        Some(headers)
    }

    fn count(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }
}

/// The bytes of a record, which is only looked at. Whose it is, and its id, stand beside them.
pub(super) fn write(record: &mut Record) -> Vec<u8> {
    let mut to = Writer::default();
    for text in record.texts() {
        to.maybe(text.as_ref().map(String::as_bytes));
    }
    for time in record.times() {
        to.0.push(u8::from(time.is_some()));
        if let Some(time) = time {
            to.signed(*time);
        }
    }
    for count in record.counts() {
        to.number((*count).into());
    }
    for flag in record.flags() {
        to.0.push(u8::from(*flag));
    }
    for name in [&record.operation, &record.method, &record.url] {
        to.bytes(name.as_bytes());
    }
    to.bytes(&record.print);
    to.headers(&record.payload.headers);
    to.maybe(record.payload.body.as_deref());
    to.0.push(place(&record.trust, &TRUSTS));
    to.0.push(place(&record.state, &State::ALL));
    to.0.push(place(&record.step, &STEPS));
    to.signed(record.created_at);
    to.signed(record.updated_at);
    to.pause(record.pause);
    to.maybe(record.lease.as_ref().map(|lease| lease.owner.as_bytes()));
    to.pause(record.lease.as_ref().map(|lease| lease.pause));
    to.0.push(record.effect.map_or(EFFECTS.len() as u8, |effect| place(&effect, &EFFECTS)));
    to.0.push(u8::from(record.error.is_some()));
    if let Some(error) = &record.error {
        let (at, code) = match error.cause {
            Cause::Code(code) => (0, code.as_str()),
            other => (place(&other, &CAUSES), ""),
        };
        to.0.push(at);
        to.bytes(code.as_bytes());
        to.number(error.status.into());
        to.maybe(error.request_id.as_ref().map(String::as_bytes));
    }
    to.0.push(u8::from(record.response.is_some()));
    if let Some(response) = &record.response {
        let kept = |body: &&[u8]| body.len() as u64 <= u64::from(record.keep_response);
        to.number(response.status.into());
        to.headers(&response.headers);
        to.maybe(response.body.as_deref().filter(kept));
        to.0.push(u8::from(response.replayed));
    }
    to.0
}

/// A record as it was written; `None` where it cannot be read, by this library or at all.
pub(super) fn read(stored: &StoredRecord) -> Option<Record> {
    if stored.format != FORMAT {
        return None;
    }
    let mut from = Reader(&stored.data);
    let mut record = Record { id: stored.id.clone(), account: stored.account.clone(), ..Record::default() };
    for text in record.texts() {
        *text = from.text()?;
    }
    for time in record.times() {
        *time = if from.some()? { Some(from.signed()?) } else { None };
    }
    for count in record.counts() {
        *count = from.count()?;
    }
    for flag in record.flags() {
        *flag = from.some()?;
    }
    for name in [&mut record.operation, &mut record.method, &mut record.url] {
        *name = from.string()?;
    }
    record.print = from.bytes()?.try_into().ok()?;
    record.payload.headers = from.headers()?;
    record.payload.body = from.maybe()?;
    record.trust = from.one_of(&TRUSTS)?;
    record.state = from.one_of(&State::ALL)?;
    record.step = from.one_of(&STEPS)?;
    record.created_at = from.signed()?;
    record.updated_at = from.signed()?;
    record.pause = from.pause()?;
    let (owner, pause) = (from.text()?, from.pause()?);
    record.lease = owner.zip(pause).map(|(owner, pause)| Lease { owner, pause });
    let effect = usize::from(from.byte()?);
    record.effect = if effect == EFFECTS.len() { None } else { Some(*EFFECTS.get(effect)?) };
    if from.some()? {
        let (cause, code) = (from.one_of(&CAUSES)?, from.string()?);
        let cause = match cause {
            // A code that is not known any more is nothing that a record is refused for.
            Cause::Code(_) => Code::from_name(&code).map_or(Cause::Status, Cause::Code),
            other => other,
        };
        record.error = Some(LastError { cause, status: from.count()? as u16, request_id: from.text()? });
    }
    if from.some()? {
        let (status, headers) = (from.count()? as u16, from.headers()?);
        record.response = Some(Response { status, headers, body: from.maybe()?, replayed: from.some()? });
    }
    from.0.is_empty().then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::chance::Chance;
    use proptest::prelude::*;

    /// A record in which every field is as chance has it.
    fn any(seed: [u8; 32]) -> Record {
        let mut chance = Chance::new(seed);
        let mut draw = move |below: i64| chance.up_to(below - 1);
        let mut record = Record { id: "i".into(), account: Some("ann".into()), ..Record::default() };
        for text in record.texts() {
            *text = (draw(2) > 0).then(|| String::from_utf8(alloc::vec![b'a'; draw(300) as usize]).unwrap());
        }
        for time in record.times() {
            *time = (draw(2) > 0).then(|| draw(i64::MAX) - draw(i64::MAX));
        }
        for count in record.counts() {
            *count = draw(1 << 32) as u32;
        }
        for flag in record.flags() {
            *flag = draw(2) > 0;
        }
        record.url = "https://shop.example/é".into();
        record.print = [draw(256) as u8; 32];
        record.payload.headers =
            (0..draw(4)).map(|at| ("n".into(), String::from(char::from(b'a' + at as u8)))).collect();
        record.payload.body = (draw(2) > 0).then(|| alloc::vec![7; draw(1000) as usize]);
        record.trust = TRUSTS[draw(3) as usize];
        record.state = State::ALL[draw(11) as usize];
        record.step = STEPS[draw(3) as usize];
        record.created_at = draw(i64::MAX);
        record.pause = (draw(2) > 0).then(|| Pause { until: -draw(i64::MAX), length: draw(99) });
        record.lease = record.pause.map(|pause| Lease { owner: "o".into(), pause });
        record.effect = EFFECTS.get(draw(4) as usize).copied();
        record.error = (draw(2) > 0).then(|| LastError {
            cause: if draw(2) > 0 { CAUSES[1 + draw(7) as usize] } else { Cause::Code(*Code::ALL.last().unwrap()) },
            status: draw(1000) as u16,
            request_id: (draw(2) > 0).then(|| "r".into()),
        });
        record.response = (draw(2) > 0).then(|| Response {
            status: draw(1000) as u16,
            headers: record.payload.headers.clone(),
            body: record.payload.body.clone().filter(|body| body.len() as u64 <= record.keep_response.into()),
            replayed: draw(2) > 0,
        });
        record
    }

    proptest! {
        #[test]
        fn a_record_reads_back_as_it_was(seed: [u8; 32]) {
            let mut record = any(seed);
            prop_assert_eq!(read(&record.stored(3)), Some(record));
        }

        #[test]
        fn what_was_cut_off_is_not_half_a_record(seed: [u8; 32], cut: prop::sample::Index) {
            let mut stored = any(seed).stored(3);
            stored.data.truncate(cut.index(stored.data.len()));
            prop_assert_eq!(read(&stored), None);
        }

        #[test]
        fn no_bytes_break_the_reader(data: Vec<u8>) {
            let (id, format) = (String::new(), FORMAT);
            read(&StoredRecord { id, account: None, revision: 1, format, data });
        }
    }
}
