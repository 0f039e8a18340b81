//! Which intent a call belongs to, and what people do with it.

use samekey_core::intent::{Event, Failure, State, Submit, Trust, Until};
use samekey_core::problem::Code;
use samekey_core::receipt::{Receipt, Word};

use crate::bench::{Bench, START, completed, header, stated};
use crate::server::{problem, with};

const TEA: &str = r#"{"sku":"tea","n":1}"#;
const COFFEE: &str = r#"{"sku":"coffee"}"#;
const MINUTE: i64 = 60_000;

fn slot(call: u32, body: &str) -> Submit {
    Submit { slot: Some("cart:7".into()), ..Bench::order(call, body) }
}

#[test]
fn a_double_click_is_one_intent_before_and_shortly_after_the_answer() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    // Equal as JSON is equal.
    bench.submit(Bench::order(2, r#"{ "n": 1.0, "sku": "tea" }"#));
    bench.answer(completed());
    bench.submit(Bench::order(3, TEA));
    assert_eq!((bench.promise(1), bench.promise(2), bench.promise(3)), ("done false", "done true", "done true"));
    assert!(bench.out.is_empty());
    bench.pass(1_001);
    bench.submit(Bench::order(4, TEA));
    bench.answer(completed());
    assert_eq!(bench.promise(4), "done false", "a second later it is meant");
    assert_eq!(bench.states(), [State::Done, State::Done]);
}

#[test]
fn a_second_coffee_is_asked_for() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, COFFEE));
    bench.submit(Submit { another: true, ..Bench::order(2, COFFEE) });
    let first = bench.answer(completed());
    let second = bench.answer(completed());
    assert_ne!(header(&first, "idempotency-key"), header(&second, "idempotency-key"));
    assert_eq!((bench.promise(1), bench.promise(2)), ("done false", "done false"));
}

#[test]
fn calls_before_the_store_is_read_stand_behind_what_is_in_it() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    let records: Vec<_> = bench.store.values().cloned().collect();
    let mut engine = samekey_core::intent::Engine::new(bench.config.clone(), [5; 32]).unwrap();
    let actions = engine.step(bench.now, Event::Submit(Box::new(Bench::order(1, TEA))));
    assert_eq!(actions, [samekey_core::intent::Action::Read], "nothing is decided before that");
    engine.step(bench.now, Event::Loaded { records });
    assert_eq!(engine.ids().count(), 1, "it joins what an earlier page left");
}

#[test]
fn giving_up_waiting_gives_up_nothing_else() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.step(Event::Aborted { call: 1 });
    bench.submit(Bench::order(2, TEA));
    bench.answer(completed());
    assert_eq!((bench.promise(1), bench.promise(2)), ("open", "done true"));
}

#[test]
fn patience_ends_and_the_intent_goes_on() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Submit { until: Until::Patience(30_000), ..Bench::order(1, TEA) });
    bench.pass(29_999);
    assert_eq!(bench.promise(1), "open");
    bench.pass(1);
    assert_eq!(bench.promise(1), "samekey/pending");
    bench.answer(completed());
    assert_eq!(bench.only().state(), State::Done);
}

#[test]
fn enqueue_resolves_when_it_is_durable_and_not_before() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Submit { until: Until::Durable, ..Bench::order(1, TEA) });
    assert!(bench.promise(1).starts_with("accepted") && bench.promise(1).ends_with("false"));
    bench.store_works = false;
    bench.submit(Submit { until: Until::Durable, ..Bench::order(2, COFFEE) });
    assert_eq!(bench.promise(2), "samekey/storage");
    assert_eq!(bench.ids().len(), 1, "what could not be kept is not there");
}

#[test]
fn an_edited_form_replaces_what_never_left() {
    let mut bench = Bench::new(Trust::Auto);
    bench.step(Event::Online(false));
    bench.submit(slot(1, TEA));
    bench.submit(slot(2, COFFEE));
    assert!(!bench.only().maybe_sent() && bench.only().key().is_none());
    bench.step(Event::Online(true));
    let request = bench.answer(completed());
    assert_eq!(request.body.as_deref(), Some(COFFEE.as_bytes()));
    assert_eq!((bench.promise(1), bench.promise(2)), ("done false", "done false"));
}

#[test]
fn an_edited_form_closes_the_key_of_what_may_have_left() {
    let closed = || with(stated(200, Receipt::of(Word::Refused)), "x", "y");
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(slot(1, TEA));
    bench.lose(Failure::Network);
    bench.submit(slot(2, COFFEE));
    let request = bench.answer(closed());
    assert_eq!(request.method, "DELETE");
    assert!(request.url.ends_with("/.well-known/samekey/status?operation=POST%20%2Forders"), "{}", request.url);
    let request = bench.answer(completed());
    assert_eq!(request.body.as_deref(), Some(COFFEE.as_bytes()));
    assert_eq!((bench.promise(1), bench.promise(2)), ("cancelled false", "done false"));
}

#[test]
fn an_edited_form_is_a_conflict_where_the_first_one_happened() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(slot(1, TEA));
    bench.lose(Failure::Timeout);
    bench.submit(slot(2, COFFEE));
    assert_eq!(bench.answer(with(completed(), "idempotent-replayed", "true")).method, "DELETE");
    assert_eq!((bench.promise(1), bench.promise(2)), ("done false", "conflict false"));
    assert!(bench.out.is_empty());
    bench.pass(2_000);
    bench.submit(slot(3, COFFEE));
    bench.answer(completed());
    assert_eq!(bench.promise(3), "done false", "the slot is free again");
}

#[test]
fn cancel_before_anything_was_sent_removes_it() {
    let mut bench = Bench::new(Trust::Auto);
    bench.step(Event::Online(false));
    bench.submit(Bench::order(1, TEA));
    let id = bench.ids()[0].clone();
    bench.step(Event::Cancel { call: 2, id });
    assert_eq!((bench.promise(1), bench.promise(2)), ("cancelled false", "cancelled false"));
    bench.step(Event::Online(true));
    bench.is_quiet_for(60 * MINUTE);
    let stored = format!("{:?}", bench.store);
    assert!(!stored.contains("116, 101, 97"), "the payload is gone from the store");
}

#[test]
fn cancel_afterwards_tells_the_truth() {
    for (answer, said) in [
        (stated(200, Receipt::of(Word::Refused)), "cancelled false"),
        (with(completed(), "idempotent-replayed", "true"), "done false"),
        (problem(Code::OutcomeUncertain, None, ""), "unknown false"),
    ] {
        let mut bench = Bench::new(Trust::Samekey);
        bench.submit(Bench::order(1, TEA));
        let id = bench.ids()[0].clone();
        bench.step(Event::Cancel { call: 2, id });
        // What is out is heard first.
        assert_eq!(bench.lose(Failure::Network).method, "POST");
        assert_eq!(bench.answer(answer).method, "DELETE");
        assert_eq!(bench.promise(2), said);
    }
}

#[test]
fn what_is_to_be_cancelled_is_not_delivered_again() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    let id = bench.ids()[0].clone();
    bench.step(Event::Cancel { call: 2, id });
    for _ in 0..5 {
        assert_eq!(bench.lose(Failure::Network).method, "DELETE");
        bench.reload();
    }
    bench.answer(problem(Code::OperationInProgress, None, ""));
    assert_eq!(bench.answer(stated(200, Receipt::of(Word::Refused))).method, "DELETE");
    assert_eq!(bench.only().state(), State::Cancelled);
}

#[test]
fn what_was_out_when_it_was_cancelled_may_have_happened() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.request();
    let id = bench.ids()[0].clone();
    bench.step(Event::Cancel { call: 2, id });
    // The page dies, and the server forgets.
    bench.now += 40 * 24 * 60 * MINUTE;
    bench.reload();
    let members = format!(",\"server_time\":{}", bench.now);
    assert_eq!(bench.answer(problem(Code::KeyExpired, None, &members)).method, "DELETE");
    assert_eq!(bench.only().state(), State::Expired);
}

#[test]
fn a_key_of_the_application_belongs_to_one_payload() {
    let mut bench = Bench::new(Trust::Auto);
    let keyed = |call, body, line: &str| {
        let mut submit = Bench::order(call, body);
        submit.headers.push(("Idempotency-Key".into(), line.into()));
        submit
    };
    bench.submit(keyed(1, TEA, "order-17"));
    bench.submit(Submit { key: Some("order-17".into()), ..Bench::order(2, COFFEE) });
    bench.submit(keyed(3, TEA, "\"order-17\""));
    let request = bench.answer(completed());
    assert_eq!(header(&request, "idempotency-key"), Some("\"order-17\""));
    assert_eq!(request.headers.iter().filter(|(name, _)| name == "idempotency-key").count(), 1);
    let said = [bench.promise(1), bench.promise(2), bench.promise(3)];
    assert_eq!(said, ["done false", "samekey/conflict", "done true"]);
}

#[test]
fn what_makes_no_sense_or_would_store_a_secret_is_refused() {
    let mut bench = Bench::new(Trust::Auto);
    let secret = |call, name: &str| {
        let mut submit = Bench::order(call, TEA);
        submit.headers.push((name.into(), "Bearer t".into()));
        submit
    };
    bench.submit(secret(1, "Authorization"));
    bench.submit(secret(2, "COOKIE"));
    bench.submit(Submit { method: "GET".into(), ..Bench::order(3, TEA) });
    bench.submit(Submit { url: "/orders".into(), ..Bench::order(4, TEA) });
    bench.submit(Submit { key: Some("a b".into()), ..Bench::order(5, TEA) });
    bench.step(Event::Cancel { call: 6, id: "nothing".into() });
    for call in 1..=6 {
        let expected = if call <= 2 { "samekey/secret_header" } else { "samekey/invalid_option" };
        assert_eq!(bench.promise(call), expected, "{call}");
    }
    assert!(bench.ids().is_empty() && bench.out.is_empty());
}

#[test]
fn fetch_makes_intents_of_what_the_configuration_names() {
    let bench = Bench::new(Trust::Auto);
    let key = [("idempotency-key".to_string(), "k".to_string())];
    for (method, url, headers, covered) in [
        ("POST", "https://shop.example/orders", &[][..], true),
        ("POST", "https://shop.example/search", &[], false),
        ("POST", "https://shop.example/search", &key, true),
        ("GET", "https://shop.example/orders", &key, false),
        ("POST", "https://other.example/orders", &[], false),
    ] {
        assert_eq!(bench.engine.covers(method, url, headers), covered, "{method} {url}");
    }
}

#[test]
fn intents_of_somebody_else_are_neither_shown_nor_sent() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.step(Event::Online(false));
    bench.submit(Bench::order(1, TEA));
    bench.account = Some("bob".into());
    bench.step(Event::Account { account: bench.account.clone() });
    bench.step(Event::Online(true));
    assert!(bench.ids().is_empty());
    bench.is_quiet_for(24 * 60 * MINUTE);
    bench.account = Some("ann".into());
    bench.answer(completed());
    assert_eq!(bench.only().state(), State::Done);
}

#[test]
fn somebody_else_who_signs_in_between_lock_and_claim_sends_nothing() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.account = Some("bob".into());
    bench.submit(Bench::order(1, TEA));
    assert!(bench.out.is_empty(), "the page prepared it for bob");
    assert!(bench.ids().is_empty());
}

#[test]
fn signing_out_keeps_or_discards_what_is_unresolved() {
    for discard in [false, true] {
        let mut bench = Bench::new(Trust::Samekey);
        bench.submit(Bench::order(1, TEA));
        bench.answer(completed());
        bench.submit(Bench::order(2, COFFEE));
        bench.lose(Failure::Network);
        bench.account = None;
        bench.step(Event::SignOut { call: 3, discard });
        assert_eq!(bench.promise(3), "done 1");
        assert!(bench.ids().is_empty());
        bench.is_quiet_for(0);
        let left =
            String::from_utf8_lossy(&bench.store.values().flat_map(|stored| stored.data.clone()).collect::<Vec<_>>())
                .into_owned();
        assert!(!left.contains("tea") && !left.contains("o1"), "what was settled is erased");
        assert_eq!(left.contains("coffee"), !discard);
        bench.account = Some("ann".into());
        bench.reload();
        if discard {
            bench.is_quiet_for(24 * 60 * MINUTE);
            assert!(bench.ids().is_empty());
        } else {
            let request = bench.answer(completed());
            assert_eq!(request.body.as_deref(), Some(COFFEE.as_bytes()));
        }
    }
}

#[test]
fn an_outcome_that_was_taken_is_kept_for_a_day_and_one_that_was_not_for_longer() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.answer(completed());
    bench.submit(Submit { until: Until::Durable, ..Bench::order(2, COFFEE) });
    bench.answer(completed());
    bench.pass(23 * 60 * MINUTE);
    assert_eq!(bench.ids().len(), 2);
    bench.pass(2 * 60 * MINUTE);
    assert_eq!(bench.ids().len(), 1, "the taken one is gone");
    bench.pass(60 * 24 * 60 * MINUTE);
    let id = bench.ids()[0].clone();
    bench.step(Event::Wait { call: 3, id });
    assert_eq!(bench.promise(3), "done false");
    bench.reload();
    bench.pass(60 * MINUTE);
    assert!(bench.ids().is_empty(), "now that it was taken it may go");
}

#[test]
fn dismissing_what_is_open_needs_that_the_risk_is_accepted() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.answer(problem(Code::OutcomeUncertain, None, ""));
    let id = bench.ids()[0].clone();
    bench.step(Event::Dismiss { call: 2, id: id.clone(), accept_risk: false });
    bench.step(Event::Dismiss { call: 3, id, accept_risk: true });
    assert_eq!(
        (bench.promise(1), bench.promise(2), bench.promise(3)),
        ("unknown false", "samekey/invalid_option", "done 0")
    );
    assert!(bench.ids().is_empty());
    bench.reload();
    assert!(bench.ids().is_empty());
    bench.is_quiet_for(24 * 60 * MINUTE);
    assert!(bench.now > START);
}
