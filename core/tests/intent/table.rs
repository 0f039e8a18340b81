//! The rule: an intent is settled if and only if the server's record can never run again.
//!
//! What the server says, and whether the record can run, both come from its own state machine, which knows nothing of
//! this client. Every record is made by real transitions; whether it can run is found by trying everything that may
//! happen to it.

use std::collections::VecDeque;
use std::time::Duration;

use samekey_core::answer::{Head, Meaning, meaning, said};
use samekey_core::claim::transition::{Event as On, Probed, Settlement};
use samekey_core::claim::{
    Context, Delivery, Finish, Gate, Holder, Marks, Reason, Record, Say, State as Standing, Terminal, Write, close,
    deliver, transition,
};
use samekey_core::fingerprint::{Fingerprint, Payload, fingerprint};
use samekey_core::intent::{Action, Operation};
use samekey_core::intent::{Answer, Config, Engine, Event, State, Submit, Trust, Until, Written};
use samekey_core::problem::Code;
use samekey_core::receipt::{Receipt, Word};
use samekey_core::select::Profile;
use samekey_core::{OutcomeClass, Policy, Recovery, Timestamp};

use crate::server::{ORIGIN, plain, with};

const NOW: i64 = 1_796_000_000_000;

fn at(after: Duration) -> Timestamp {
    Timestamp::from_millis(NOW) + after
}

fn print() -> Fingerprint {
    fingerprint(&Payload { body: b"{}", ..Payload::default() }, &Profile::default())
}

fn context(policy: &Policy, now: Timestamp) -> Context<'_> {
    Context { now, policy, may_judge: true, new_holder: Holder::from_bytes([7; 16]) }
}

fn delivery(gate: Gate, mark: Timestamp) -> Delivery {
    Delivery {
        fingerprint: print(),
        key_time: Some(at(Duration::ZERO)),
        holder: Holder::from_bytes([9; 16]),
        gate,
        marks: Marks { forgotten_before: mark, horizon: None },
    }
}

fn long_ago() -> Timestamp {
    Timestamp::from_millis(0)
}

/// A claimed record.
fn claimed(policy: &Policy) -> Record {
    let first = Delivery { holder: Holder::from_bytes([1; 16]), ..delivery(Gate::Open, long_ago()) };
    let verdict = deliver(None, &first, &context(policy, at(Duration::ZERO)));
    verdict.write.expect("the first delivery claims")
}

fn written(write: Write) -> Option<Record> {
    match write {
        Write::Update(record) | Write::UpdateAndCloseEffects(record) => Some(record),
        Write::Nothing | Write::Delete { .. } => None,
    }
}

/// Whether any delivery of the same key could still run, whatever happens to the record first.
fn can_run(record: &Record, policy: &Policy) -> bool {
    let mut seen: Vec<(Standing, Option<Reason>, bool)> = Vec::new();
    let mut open = VecDeque::from([record.clone()]);
    while let Some(record) = open.pop_front() {
        let sign = (record.state, record.reason, record.has_response);
        if seen.contains(&sign) {
            continue;
        }
        seen.push(sign);
        // A claim that runs may be released by its holder, and runs again then.
        if record.state == Standing::InProgress {
            return true;
        }
        for after in [0, 60, 3_600, 10 * 86_400, 40 * 86_400] {
            let context = context(policy, at(Duration::from_secs(after)));
            let verdict = deliver(Some(&record), &delivery(Gate::Open, long_ago()), &context);
            if matches!(verdict.say, Say::Run(_)) {
                return true;
            }
            open.extend(verdict.write);
            let revision = record.revision;
            let answer = Terminal { status: Some(200), reason: None, result_id: None, has_response: true };
            let settle = |settlement| On::Operator { revision, looked_at: context.now, force: true, settlement };
            let probe = |verdict| On::Probe { revision, asked_at: context.now, verdict };
            for event in [
                On::Tick,
                On::GiveUp,
                probe(Probed::Absent),
                probe(Probed::Done(answer.clone())),
                settle(Settlement::Released),
                settle(Settlement::Ended(answer.clone())),
                On::Finish(record.fence, Finish::Released { not_before: None }),
                On::Finish(record.fence, Finish::Terminal(answer.clone())),
                // A row that is deleted leaves a key that is refused: it carries its time.
                On::Sweep { key_time: Some(at(Duration::ZERO)), forget_limit: context.now },
            ] {
                open.extend(transition(&record, &event, &context).ok().and_then(written));
            }
        }
    }
    false
}

/// An answer as the server gives it, with what is true about its record.
struct Case {
    name: String,
    answer: Answer,
    /// `None`: there is no record that could run; what becomes of the request is not told by it.
    can_run: Option<bool>,
}

fn receipt(answer: Answer, receipt: Receipt) -> Answer {
    with(answer, "samekey-state", &receipt.to_string())
}

/// A problem as the server writes it.
fn problem(code: Code, ietf: bool, record: Option<&Record>) -> Answer {
    let row = code.row();
    let status = code.status(ietf);
    let mut members = String::new();
    if let (Code::ResponseNotStored, Some(ended)) = (code, record.and_then(|record| record.status_code)) {
        members = format!(",\"status_code\":{ended}");
    }
    if code == Code::KeyExpired {
        members = format!(",\"server_time\":{NOW}");
    }
    let name = code.as_str();
    let page = format!("{{\"type\":\"/.well-known/samekey/problems/{name}\",\"code\":\"{name}\"{members}}}");
    let answer = plain(status, "application/problem+json", &page);
    let of_record = record.map(Record::receipt);
    match (row.word, of_record) {
        (Some(word), Some(of_record)) if word == of_record.word => receipt(answer, of_record),
        (Some(word), _) => receipt(answer, Receipt::of(word)),
        (None, Some(of_record)) => receipt(answer, of_record),
        (None, None) => answer,
    }
}

/// The handler's own answer, and what it makes of the record.
fn of_handler(policy: &Policy, status: u16, retry_after: bool, word: Option<OutcomeClass>) -> Case {
    let record = claimed(policy);
    let head = Head { status, retry_after: retry_after.then_some(Duration::from_secs(3)), said: word };
    let terminal = |reason| Terminal { status: Some(status), reason, result_id: None, has_response: true };
    let finish = match meaning(head, policy) {
        Meaning::Completed => Finish::Terminal(terminal(None)),
        Meaning::Failed { effect_unknown } => Finish::Terminal(terminal(effect_unknown.then_some(Reason::ServerError))),
        Meaning::Released { .. } => Finish::Released { not_before: None },
        Meaning::Uncertain => Finish::Uncertain(Reason::Status),
    };
    let context = context(policy, at(Duration::from_secs(1)));
    let record = written(transition(&record, &On::Finish(record.fence, finish), &context).unwrap()).unwrap();
    let mut answer = receipt(plain(status, "application/json", "{}"), record.receipt());
    if retry_after {
        answer = with(answer, "retry-after", "3");
    }
    Case { name: format!("{status} {word:?}"), can_run: Some(can_run(&record, policy)), answer }
}

/// Every record that a delivery can meet, and what it hears.
fn of_records(policy: &Policy) -> Vec<Case> {
    let context_at = |seconds| context(policy, at(Duration::from_secs(seconds)));
    let running = claimed(policy);
    let finish =
        |finish| written(transition(&running, &On::Finish(running.fence, finish), &context_at(1)).unwrap()).unwrap();
    let terminal = |status, has_response| {
        let reason = (status >= 500).then_some(Reason::ServerError);
        Finish::Terminal(Terminal { status: Some(status), reason, result_id: None, has_response })
    };
    let mut records = vec![
        running.clone(),
        finish(terminal(201, true)),
        finish(terminal(201, false)),
        finish(terminal(422, true)),
        finish(terminal(422, false)),
        finish(terminal(500, true)),
        finish(terminal(500, false)),
        finish(Finish::Released { not_before: Some(at(Duration::from_secs(50))) }),
        finish(Finish::Uncertain(Reason::NoAnswer)),
    ];
    let uncertain = records.last().unwrap().clone();
    let later = context(policy, at(Duration::from_secs(40 * 86_400)));
    records.extend(transition(&uncertain, &On::GiveUp, &later).ok().and_then(written));
    for ended in [201, 422, 500] {
        let sweep = On::Sweep { key_time: Some(at(Duration::ZERO)), forget_limit: long_ago() };
        records.extend(transition(&finish(terminal(ended, true)), &sweep, &later).ok().and_then(written));
    }
    let marks = delivery(Gate::Open, long_ago()).marks;
    let closed = close(None, Gate::Open, Some(at(Duration::ZERO)), marks, &context_at(1)).write.unwrap();
    let mut cases = Vec::new();
    for record in records.iter().chain([&closed]) {
        let verdict = deliver(Some(record), &delivery(Gate::Open, long_ago()), &context_at(2));
        let answer = match verdict.say {
            Say::Replay => {
                let answer = plain(record.status_code.unwrap(), "application/json", "{}");
                receipt(with(answer, "idempotent-replayed", "true"), record.receipt())
            }
            Say::Refuse(code) => problem(code, policy.ietf, Some(record)),
            Say::Wait => problem(Code::OperationInProgress, policy.ietf, Some(record)),
            other => panic!("{other:?} is no answer"),
        };
        let name = format!("{:?} {:?}", record.state, verdict.say);
        cases.push(Case { name, can_run: Some(can_run(record, policy)), answer });
    }
    // The holder's own answers that no status tells.
    for (code, finish) in [
        (Code::UpstreamTimeout, Finish::Uncertain(Reason::Deadline)),
        (Code::UpstreamUnreachable, Finish::Released { not_before: None }),
    ] {
        let record =
            written(transition(&running, &On::Finish(running.fence, finish), &context_at(1)).unwrap()).unwrap();
        let answer = problem(code, policy.ietf, Some(&record));
        cases.push(Case { name: code.as_str().into(), can_run: Some(can_run(&record, policy)), answer });
    }
    // What stands before a claim: there is no record yet, and the next delivery may make one.
    for (gate, code) in [(Gate::Quota, Code::QuotaExceeded), (Gate::Overloaded, Code::Overloaded)] {
        let verdict = deliver(None, &delivery(gate, long_ago()), &context_at(1));
        assert_eq!(verdict.say, Say::Refuse(code));
        cases.push(Case { name: code.as_str().into(), can_run: Some(true), answer: problem(code, policy.ietf, None) });
    }
    cases
}

/// What the layer says before it looks for a record, and whether the very same request may run later.
fn of_layer(ietf: bool) -> Vec<Case> {
    let may_run_later = |code| match code {
        Code::StoreUnavailable | Code::BodyInvalid | Code::BodyTimeout | Code::ActorRequired => Some(true),
        Code::KeyRequired | Code::KeyInvalid | Code::PayloadTooLarge => Some(false),
        // The record under this key is another command's.
        Code::KeyPayloadMismatch => Some(false),
        // Who asks is not known, or the key is older than all records: no record tells.
        Code::ActorChanged | Code::KeyExpired => None,
        _ => Some(true),
    };
    [
        Code::StoreUnavailable,
        Code::BodyInvalid,
        Code::BodyTimeout,
        Code::ActorRequired,
        Code::KeyRequired,
        Code::KeyInvalid,
        Code::PayloadTooLarge,
        Code::KeyPayloadMismatch,
        Code::ActorChanged,
        Code::KeyExpired,
    ]
    .into_iter()
    .map(|code| Case { name: code.as_str().into(), answer: problem(code, ietf, None), can_run: may_run_later(code) })
    .collect()
}

fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let policy = Policy::new("orders.create");
    for status in 200..1000 {
        for retry_after in [false, true] {
            for word in [None, said(b"terminal"), said(b"released"), said(b"uncertain")] {
                cases.push(of_handler(&policy, status, retry_after, word));
            }
        }
    }
    for recovery in [Recovery::Manual, Recovery::Probe, Recovery::Rerun] {
        cases.extend(of_records(&policy.clone().recovery(recovery)));
    }
    cases.extend(of_layer(false));
    cases.extend(of_layer(true));
    cases
}

/// The engine that has just sent its first delivery, and the number of the exchange.
fn sent(trust: Trust) -> (Engine, u32, String) {
    let operation = Operation { name: "orders.create".into(), receipt: trust, ..Operation::default() };
    let config = Config { operations: vec![operation], ..Config::default() };
    let mut engine = Engine::new(config, [3; 32]).unwrap();
    engine.step(NOW, Event::Account { account: None });
    engine.step(NOW, Event::Loaded { records: Vec::new() });
    let submit = Submit {
        call: 1,
        until: Until::Durable,
        method: "POST".into(),
        url: format!("{ORIGIN}/orders"),
        operation: Some("orders.create".into()),
        ..Submit::default()
    };
    let mut actions = engine.step(NOW, Event::Submit(Box::new(submit)));
    loop {
        let mut next = Vec::new();
        for action in actions {
            match action {
                Action::Write { write, .. } => {
                    next.extend(engine.step(NOW, Event::Written { write, result: Written::Done }));
                }
                Action::Prepare { id, .. } => {
                    next.extend(engine.step(NOW, Event::Prepared { id, account: None }));
                }
                Action::Fetch { exchange, id: Some(id), .. } => return (engine, exchange, id),
                _ => {}
            }
        }
        assert!(!next.is_empty(), "it is sent in the end");
        actions = next;
    }
}

fn hear(trust: Trust, answer: &Answer) -> State {
    let (mut engine, exchange, id) = sent(trust);
    let actions = engine.step(NOW, Event::Answered { exchange, answer: Box::new(answer.clone()) });
    for action in actions {
        if let Action::Write { write, .. } = action {
            engine.step(NOW, Event::Written { write, result: Written::Done });
        }
    }
    engine.view(&id).unwrap().state()
}

#[test]
fn settles_if_and_only_if_the_record_can_never_run_again() {
    let cases = all();
    assert!(cases.len() > 6_000);
    for Case { name, answer, can_run } in &cases {
        for trust in [Trust::Auto, Trust::Samekey] {
            let state = hear(trust, answer);
            match can_run {
                Some(can_run) => assert_eq!(state.is_settled(), !can_run, "{name}: {state:?} by {answer:?}"),
                None => assert!(!state.is_settled(), "{name}: {state:?}"),
            }
        }
    }
}

#[test]
fn what_is_settled_says_how_it_ended() {
    for Case { name, answer, .. } in all() {
        let state = hear(Trust::Auto, &answer);
        let said = answer.headers.iter().find(|(name, _)| name == "samekey-state").map(|(_, value)| value.as_str());
        match (state, said.and_then(|value| value.split(';').next())) {
            (State::Done, said) => assert_eq!(said, Some("completed"), "{name}"),
            (State::Failed, said) => assert!(matches!(said, Some("failed" | "refused")), "{name}: {said:?}"),
            (State::Cancelled | State::Conflict, said) => assert_eq!(said, Some("refused"), "{name}"),
            (_, said) => assert_ne!(said, Some("completed"), "{name}"),
        }
    }
}

/// A proxy that drops our headers, or a page of another origin that may not read them.
#[test]
fn without_its_receipt_nothing_is_settled_that_may_run() {
    let (mut by_code, mut asked) = (0, 0);
    for Case { name, mut answer, can_run } in all() {
        answer.headers.retain(|(name, _)| name != "samekey-state");
        let coded = answer.headers.iter().any(|(_, value)| value == "application/problem+json");
        let state = hear(Trust::Samekey, &answer);
        match can_run {
            Some(can_run) if coded => {
                assert_eq!(state.is_settled(), !can_run, "{name}: the code says enough");
                by_code += 1;
            }
            _ => {
                assert!(!state.is_settled(), "{name}: {state:?} without a receipt where one is due");
                asked += 1;
            }
        }
    }
    assert!(by_code > 20 && asked > 6_000);
}

/// The same at a server of which nothing is known yet, for answers by the built-in table.
#[test]
fn without_its_receipt_a_new_server_settles_nothing_that_may_run() {
    let policy = Policy::new("orders.create");
    let mut settled = 0;
    for status in 200..1000 {
        for retry_after in [false, true] {
            let Case { name, mut answer, can_run } = of_handler(&policy, status, retry_after, None);
            answer.headers.retain(|(name, _)| name != "samekey-state");
            let state = hear(Trust::Auto, &answer);
            assert!(!state.is_settled() || can_run == Some(false), "{name}: {state:?}");
            settled += u32::from(state.is_settled());
        }
    }
    assert!(settled > 300, "2xx and most 4xx can mean but one thing");
}

#[test]
fn what_is_not_covered_is_settled_by_its_status() {
    for status in 200..1000 {
        for trust in [Trust::Auto, Trust::Samekey] {
            let answer = receipt(plain(status, "application/json", "{}"), Receipt::of(Word::NotCovered));
            let expected = if status < 400 { State::Done } else { State::Failed };
            assert_eq!(hear(trust, &answer), expected, "{status}");
        }
    }
}

/// A service behind samekey has problems of its own, and may use our words for them.
#[test]
fn the_codes_of_the_service_behind_are_not_ours() {
    for code in Code::ALL {
        let name = code.as_str();
        let theirs = format!("{{\"type\":\"https://shop.example/errors/{name}\",\"code\":\"{name}\"}}");
        let answer = plain(409, "application/problem+json", &theirs);
        let answer = receipt(answer, Receipt::of(Word::Failed));
        assert_eq!(hear(Trust::Auto, &answer), State::Failed, "{name}");
        // A second samekey behind the first: what it says holds for its own records.
        let theirs = format!("{{\"type\":\"/.well-known/samekey/problems/{name}\",\"code\":\"{name}\"}}");
        let answer = receipt(plain(409, "application/problem+json", &theirs), Receipt::of(Word::Failed));
        let state = hear(Trust::Auto, &answer);
        assert!(state.is_settled(), "{name}: {state:?}");
    }
}

#[test]
fn every_code_of_the_table_was_heard() {
    let heard: Vec<String> = all().into_iter().map(|case| String::from_utf8(case.answer.body).unwrap()).collect();
    for code in Code::ALL {
        // Those of the claim API are not said on the routes of clients.
        let claim_api = matches!(
            code,
            Code::ClaimStale
                | Code::EffectUnfinished
                | Code::ClaimNotFound
                | Code::Forbidden
                | Code::RequestInvalid
                | Code::RecordChanged
        );
        let said = heard.iter().any(|body| body.contains(&format!("\"code\":\"{}\"", code.as_str())));
        assert_eq!(said, !claim_api, "{}", code.as_str());
    }
}
