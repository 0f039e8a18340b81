//! When something is sent, under which key, and what is made of the answer.

use samekey_core::intent::{Answer, Event, Failure, State, Submit, Trust};
use samekey_core::problem::Code;
use samekey_core::receipt::{Receipt, Word};

use crate::bench::{Bench, START, completed, config, header, stated};
use crate::server::{httpdate, plain, problem, with};

const TEA: &str = r#"{"sku":"tea"}"#;
const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;

fn key(request: &samekey_core::intent::Request) -> String {
    header(request, "idempotency-key").unwrap().trim_matches('"').into()
}

/// The time that a key carries.
fn time(key: &str) -> i64 {
    i64::from_str_radix(&key.replace('-', "")[..12], 16).unwrap()
}

fn none() -> Answer {
    stated(404, Receipt::of(Word::None))
}

#[test]
fn every_delivery_has_the_same_key_and_another_id() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    let mut deliveries = vec![bench.lose(Failure::Network), bench.lose(Failure::Timeout)];
    bench.reload();
    deliveries.push(bench.answer(problem(Code::Overloaded, None, "")));
    deliveries.push(bench.answer(completed()));
    let keys: Vec<String> = deliveries.iter().map(key).collect();
    assert!(keys.iter().all(|other| *other == keys[0]), "{keys:?}");
    let mut ids: Vec<_> = deliveries.iter().map(|delivery| header(delivery, "x-request-id").unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(bench.only().deliveries(), 4);
}

#[test]
fn a_queue_may_be_as_old_as_it_likes() {
    let mut bench = Bench::new(Trust::Auto);
    bench.step(Event::Online(false));
    bench.config.operations[0].retry.max_delay_ms = Some(i64::MAX);
    bench.submit(Bench::order(1, TEA));
    bench.wake = None;
    bench.now += 90 * DAY;
    bench.reload();
    let request = bench.answer(completed());
    assert!(time(&key(&request)) >= START + 90 * DAY, "the key is as old as its first delivery");
}

#[test]
fn the_clock_of_the_server_goes_into_the_key() {
    let mut bench = Bench::new(Trust::Auto);
    let server = START - 40 * DAY;
    bench.submit(Bench::order(1, TEA));
    bench.answer(with(completed(), "date", &httpdate(server)));
    bench.submit(Bench::order(2, "{}"));
    let request = bench.answer(completed());
    assert!((time(&key(&request)) - server).abs() < 5_000);
    bench.reload();
    bench.submit(Bench::order(3, "{\"a\":1}"));
    let request = bench.answer(completed());
    assert!((time(&key(&request)) - server).abs() < 5_000, "and is remembered");
}

fn expired(server_time: i64) -> Answer {
    problem(Code::KeyExpired, None, &format!(",\"server_time\":{server_time}"))
}

#[test]
fn a_device_whose_clock_is_a_month_behind_gets_a_new_key_once_it_is_proved_that_nothing_ran() {
    let mut bench = Bench::new(Trust::Auto);
    let server = START + 31 * DAY;
    bench.submit(Bench::order(1, TEA));
    let first = bench.answer(expired(server));
    let second = bench.answer(completed());
    assert_ne!(key(&first), key(&second));
    assert!((time(&key(&second)) - server).abs() < 5_000);
    assert_eq!(bench.promise(1), "done false");
}

#[test]
fn a_key_that_expired_after_an_answer_was_lost_is_for_a_person() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    let first = bench.lose(Failure::Network);
    bench.answer(expired(START + 40 * DAY));
    assert_eq!(bench.promise(1), "expired false");
    bench.is_quiet_for(DAY);
    let id = bench.ids()[0].clone();
    bench.step(Event::Resume { call: 2, id: Some(id.clone()), accept_risk: false });
    assert_eq!(bench.promise(2), "samekey/invalid_option");
    bench.step(Event::Resume { call: 3, id: Some(id), accept_risk: true });
    let second = bench.answer(completed());
    assert_ne!(key(&first), key(&second), "at the person's risk");
    assert_eq!(bench.only().state(), State::Done);
}

#[test]
fn no_record_may_be_one_that_was_forgotten() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    bench.now += 40 * DAY;
    bench.reload();
    assert_eq!(bench.answer(none()).method, "GET");
    assert_eq!(bench.answer(expired(START + 40 * DAY)).method, "POST");
    assert_eq!(bench.only().state(), State::Expired);
}

#[test]
fn what_was_uncertain_and_is_forgotten_gets_no_new_key() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.answer(problem(Code::UpstreamTimeout, None, ""));
    bench.now += 40 * DAY;
    bench.reload();
    assert_eq!(bench.answer(none()).method, "GET");
    assert_eq!(bench.answer(expired(START + 40 * DAY)).method, "POST");
    assert_eq!(bench.only().state(), State::Expired);
}

#[test]
fn a_server_that_calls_every_key_expired_is_not_believed_for_ever() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    for _ in 0..4 {
        bench.answer(expired(START));
    }
    assert_eq!(bench.only().state(), State::Expired);
}

#[test]
fn a_server_nothing_is_known_of_is_asked_before_anything_is_sent_twice() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    assert_eq!(bench.answer(none()).method, "GET");
    assert_eq!(bench.answer(completed()).method, "POST");
}

#[test]
fn a_page_that_died_in_the_middle_counts_as_an_answer_that_was_lost() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    let first = bench.request();
    bench.reload();
    let asked = bench.answer(none());
    assert_eq!((asked.method.as_str(), key(&asked)), ("GET", key(&first)));
    assert_eq!(key(&bench.answer(completed())), key(&first));
}

#[test]
fn an_undeclared_foreign_server_is_never_sent_anything_twice() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    let foreign = || plain(404, "text/html", "<h1>Cannot GET</h1>");
    assert_eq!(bench.answer(foreign()).method, "GET");
    assert_eq!(bench.promise(1), "unknown false");
    for _ in 0..40 {
        if bench.wake.is_some_and(|wake| wake < bench.now + 3_600_000) {
            assert_eq!(bench.answer(foreign()).method, "GET");
        }
    }
    assert_eq!(bench.only().deliveries(), 1);
}

#[test]
fn a_declared_foreign_server_is_taken_by_its_word() {
    let mut bench = Bench::new(Trust::Status);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    for status in [409, 500, 503, 429] {
        assert_eq!(bench.answer(plain(status, "application/json", "{}")).method, "POST");
    }
    bench.answer(plain(402, "application/json", "{}"));
    assert_eq!(bench.promise(1), "failed false");
}

#[test]
fn a_portal_in_front_of_the_network_settles_nothing() {
    let portal = || plain(200, "text/html; charset=utf-8", "<h1>Welcome</h1>");
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.answer(portal());
    for _ in 0..20 {
        assert_eq!(bench.answer(portal()).method, "GET", "asked, never sent again blindly");
    }
    assert_eq!(bench.answer(none()).method, "GET");
    assert_eq!(bench.answer(completed()).method, "POST");
    assert_eq!(bench.only().state(), State::Done);
}

#[test]
fn samekey_taken_out_of_the_way_is_noticed_and_nothing_is_sent_twice() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.answer(completed());
    bench.submit(Bench::order(2, "{}"));
    let bare = || plain(201, "application/json", "{}");
    assert_eq!(bench.answer(bare()).method, "POST");
    let gone = || plain(404, "text/html", "<h1>Cannot GET</h1>");
    assert_eq!(bench.answer(gone()).method, "GET");
    assert_eq!(bench.answer(gone()).method, "GET");
    assert_eq!(bench.promise(2), "stalled false");
    assert!(bench.log.contains(&"no_receipt"));
    bench.is_quiet_for(DAY);
    bench.step(Event::Resume { call: 3, id: None, accept_risk: false });
    assert_eq!(bench.request().method, "GET");
}

#[test]
fn a_redirect_that_the_browser_hides_is_looked_up() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.answer(Answer::default());
    let mut told = stated(200, Receipt::of(Word::Completed));
    told.body = b"{\"status_code\":303,\"response_stored\":true}".to_vec();
    assert_eq!(bench.answer(told).method, "GET");
    assert_eq!(bench.only().state(), State::Done);
    assert_eq!(bench.only().response().map(|response| response.status), Some(303));
}

#[test]
fn an_answer_that_is_kept_there_is_fetched() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.answer(plain(504, "text/html", ""));
    let mut told = stated(200, Receipt::of(Word::Completed));
    told.body = b"{\"status_code\":201,\"response_stored\":true}".to_vec();
    bench.answer(told);
    assert_eq!(bench.answer(with(completed(), "idempotent-replayed", "true")).method, "POST");
    let response = bench.only().response().unwrap().clone();
    assert_eq!((response.status, response.replayed, response.body.is_some()), (201, true, true));
}

#[test]
fn credentials_are_renewed_once_and_then_a_person_is_asked() {
    let mut bench = Bench::with(samekey_core::intent::Config { can_refresh: true, ..config(Trust::Samekey) });
    bench.submit(Bench::order(1, TEA));
    let id = bench.ids()[0].clone();
    let first = bench.answer(problem(Code::ActorRequired, None, ""));
    assert_eq!(bench.refreshes, 1);
    bench.step(Event::Refreshed { id: id.clone(), again: true });
    bench.answer(stated(401, Receipt::of(Word::Released)));
    assert_eq!((bench.refreshes, bench.only().state()), (1, State::NeedsAuth));
    bench.is_quiet_for(DAY);
    assert_eq!(bench.promise(1), "open", "signing in happens elsewhere, and the call goes on after it");
    bench.step(Event::Resume { call: 2, id: None, accept_risk: false });
    assert_eq!(key(&bench.answer(completed())), key(&first));
    assert_eq!(bench.promise(1), "done false");
}

#[test]
fn what_waits_for_somebody_goes_when_somebody_is_let_in() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.answer(problem(Code::ActorRequired, None, ""));
    bench.submit(Bench::order(2, "{}"));
    bench.answer(completed());
    bench.answer(completed());
    assert_eq!(bench.promise(1), "done false");
}

#[test]
fn another_actor_is_asked_about_once() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.answer(problem(Code::ActorChanged, None, ""));
    assert_eq!(bench.only().state(), State::NeedsAuth);
    bench.step(Event::Resume { call: 2, id: None, accept_risk: false });
    bench.answer(problem(Code::ActorChanged, None, ""));
    assert_eq!(bench.promise(1), "unknown false");
}

#[test]
fn the_actor_s_tag_goes_back_as_a_precondition() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    assert_eq!(header(&bench.answer(with(completed(), "samekey-actor", "tag-of-ann")), "samekey-actor"), None);
    bench.submit(Bench::order(2, "{}"));
    assert_eq!(header(&bench.request(), "samekey-actor"), Some("tag-of-ann"));
    bench.reload();
    assert_eq!(header(&bench.request(), "samekey-actor"), Some("tag-of-ann"), "it is remembered");
}

#[test]
fn retry_after_is_a_floor_that_survives_reloads_and_has_a_cap() {
    for (value, floor, most) in [
        ("30", 30_000, 31_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0, 1_000),
        ("99999999999999999999", DAY, DAY + 1_000),
    ] {
        let mut bench = Bench::new(Trust::Samekey);
        bench.submit(Bench::order(1, TEA));
        bench.answer(with(problem(Code::OperationReleased, None, ""), "retry-after", value));
        let then = bench.now;
        bench.reload();
        bench.step(Event::Online(true));
        bench.request();
        let waited = bench.now - then;
        assert!((floor..=most).contains(&waited), "{value}: {waited} ms");
    }
    // By a date, on the server's own clock.
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    let server = START - 90 * DAY;
    let answer = with(problem(Code::OperationReleased, None, ""), "date", &httpdate(server));
    bench.answer(with(answer, "retry-after", &httpdate(server + 10 * MINUTE)));
    let then = bench.now;
    bench.request();
    assert!((9 * MINUTE..=11 * MINUTE).contains(&(bench.now - then)), "{} ms", bench.now - then);
}

#[test]
fn clock_steps_neither_park_nor_stall_anything() {
    for step in [-400 * DAY, -3 * DAY, 3 * DAY, 400 * DAY] {
        let mut bench = Bench::new(Trust::Samekey);
        bench.submit(Bench::order(1, TEA));
        bench.answer(with(problem(Code::OperationReleased, None, ""), "retry-after", "600"));
        bench.now += step;
        bench.wake = bench.wake.map(|_| bench.now + 601_000);
        let then = bench.now;
        bench.answer(completed());
        assert!(bench.now - then <= 602_000, "{step}: {} ms", bench.now - then);
        assert_eq!(bench.promise(1), "done false", "{step}");
    }
}

#[test]
fn the_budget_ends_in_stalled_which_a_person_can_resume() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    let first = bench.lose(Failure::Network);
    let mut tries = 0;
    while bench.only().state() != State::Stalled {
        bench.lose(Failure::Network);
        tries += 1;
        assert!(tries < 10_000);
    }
    let lasted = bench.now - START;
    assert!((5 * DAY..5 * DAY + 10 * MINUTE).contains(&lasted), "{lasted} ms");
    assert!(tries > 1_000, "{tries} tries in five days");
    bench.is_quiet_for(DAY);
    let id = bench.ids()[0].clone();
    bench.step(Event::Resume { call: 2, id: Some(id), accept_risk: false });
    assert_eq!(key(&bench.answer(completed())), key(&first));
}

#[test]
fn whoever_comes_back_after_the_budget_is_told_the_outcome_first() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    bench.now += 6 * DAY;
    bench.reload();
    bench.answer(completed());
    assert_eq!(bench.only().state(), State::Done);
}

#[test]
fn a_lock_is_stolen_only_from_a_holder_whose_lease_is_over() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.step(Event::Online(false));
    bench.submit(Bench::order(1, TEA));
    let id = bench.ids()[0].clone();
    bench.locked.insert(id);
    bench.step(Event::Online(true));
    // A clock that steps is no proof.
    bench.now += 10 * DAY;
    bench.step(Event::Tick);
    bench.is_quiet_for(60_000);
    bench.request();
    assert_eq!(bench.stolen, 1);
}

#[test]
fn without_locks_the_lease_of_a_page_that_died_is_waited_for() {
    let mut bench = Bench::with(samekey_core::intent::Config { locks: false, ..config(Trust::Samekey) });
    bench.submit(Bench::order(1, TEA));
    bench.request();
    let then = bench.now;
    bench.reload();
    bench.answer(completed());
    assert!((75_000..85_000).contains(&(bench.now - then)), "{} ms", bench.now - then);
}

#[test]
fn a_store_that_fails_lets_nothing_out_and_loses_no_outcome() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.step(Event::Online(false));
    bench.submit(Bench::order(1, TEA));
    bench.store_works = false;
    bench.step(Event::Online(true));
    bench.is_quiet_for(MINUTE);
    bench.store_works = true;
    bench.request();
    bench.store_works = false;
    bench.answer(completed());
    assert_eq!((bench.promise(1), bench.only().state()), ("done false", State::Done));
    bench.pass(MINUTE);
    bench.store_works = true;
    bench.pass(MINUTE);
    bench.reload();
    assert_eq!(bench.only().state(), State::Done, "kept as soon as the store was back");
}

#[test]
fn a_store_that_was_emptied_gets_back_what_is_open() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    let first = bench.lose(Failure::Network);
    bench.store.clear();
    bench.step(Event::Told);
    assert!(bench.log.contains(&"evicted"));
    bench.reload();
    assert_eq!(key(&bench.answer(completed())), key(&first));
}

#[test]
fn a_record_of_a_newer_library_is_left_alone() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::Network);
    let id = bench.ids()[0].clone();
    bench.store.get_mut(&id).unwrap().format = 2;
    let before = bench.store[&id].clone();
    bench.reload();
    assert!(bench.ids().is_empty() && bench.log.contains(&"newer_format"));
    bench.is_quiet_for(10 * DAY);
    assert_eq!(bench.store[&id], before);
}

#[test]
fn headers_that_cannot_be_made_send_nothing() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.step(Event::Online(false));
    bench.submit(Bench::order(1, TEA));
    let id = bench.ids()[0].clone();
    bench.step(Event::NotPrepared { id, why: samekey_core::intent::NotPrepared::Threw });
    assert_eq!((bench.only().deliveries(), bench.only().maybe_sent()), (0, false));
    assert!(bench.only().to_json().contains("\"lastError\":{\"code\":\"headers\"}"));
}

#[test]
fn a_fetch_that_was_never_called_leaves_it_unsent() {
    let mut bench = Bench::new(Trust::Auto);
    bench.submit(Bench::order(1, TEA));
    bench.lose(Failure::NotSent);
    assert_eq!((bench.only().state(), bench.only().maybe_sent()), (State::Queued, false));
    bench.answer(completed());
    assert_eq!(bench.only().deliveries(), 1);
}

#[test]
fn a_long_answer_is_shown_whole_and_kept_without_its_body() {
    let mut bench = Bench::new(Trust::Samekey);
    bench.submit(Submit { label: Some("tea".into()), ..Bench::order(1, TEA) });
    let mut answer = completed();
    answer.body = vec![b'x'; 70_000];
    bench.answer(answer);
    assert_eq!(bench.only().response().unwrap().body.as_ref().map(Vec::len), Some(70_000));
    bench.reload();
    let response = bench.only().response().unwrap().clone();
    assert_eq!((response.status, response.body), (201, None));
}
