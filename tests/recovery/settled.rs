//! Records that settle by themselves, and those that wait for a person.

use rustix::process::Signal;
use std::time::Duration;
use support::tls::Authority;
use support::{Reply, Request, Serve};

use crate::shop::{Fate, PROBED, Shop, honest, operation};

#[tokio::test]
async fn a_lost_answer_is_found_by_the_probe_and_replayed() {
    let shop = Shop::open().await;
    let samekey = shop.serve(PROBED).start().await;
    shop.fate(Fate::Lost);
    let first = samekey.send(&Request::order("k")).await;
    first.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(found.replayed());
    assert_eq!((found.receipt().state.as_str(), found.receipt().attempt), ("completed", Some(1)));
    let order = found.json()["id"].as_str().expect("an order").to_owned();
    assert_eq!(found.header("location"), Some(format!("/orders/{order}")));
    assert_eq!((shop.orders("k"), shop.commands("k")), (1, 1));
    let question = shop.questions("k").remove(0);
    assert_eq!(question.headers.all("samekey-attempt"), ["1"]);
    let command =
        shop.upstream.ledger().all().into_iter().find(|received| received.method == "POST").expect("a command");
    assert_eq!(question.headers.all("samekey-provider-key"), command.headers.all("samekey-provider-key"));
    assert!(question.headers.all("samekey-actor").is_empty(), "the hash of a credential tells nobody anything");
    assert!(question.headers.all("authorization").is_empty());
    let logs = samekey.logs.text();
    let line = |event: &str| {
        logs.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event} in {logs}")).to_owned()
    };
    for field in ["operation=\"orders.create\"", "record=", "attempt=1", "key_hash=", "result=\"happened\"", "age_s="] {
        assert!(line("event=\"probe\"").contains(field), "{field} in {logs}");
    }
    for field in ["state=\"completed\"", "by=\"probe\"", "key_hash="] {
        assert!(line("event=\"settled\"").contains(field), "{field} in {logs}");
    }
}

#[tokio::test]
async fn what_did_not_happen_runs_again() {
    let shop = Shop::open().await;
    let samekey = shop.serve(PROBED).start().await;
    shop.fate(Fate::Refused);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    shop.fate(Fate::Answered);
    let ran = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    ran.ran(201, "completed", 2);
    assert_eq!((shop.orders("k"), shop.commands("k")), (1, 2));
}

#[tokio::test]
async fn without_a_probe_it_waits_for_a_person_with_its_reason() {
    let shop = Shop::open().await;
    let samekey = shop.serve("").start().await;
    shop.fate(Fate::Lost);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    tokio::time::sleep(Duration::from_secs(4)).await;
    let later = samekey.send(&Request::order("k")).await;
    let problem = later.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    assert!(problem.detail.contains("no_answer"), "{}", problem.detail);
    assert_eq!((shop.orders("k"), shop.questions("k").len()), (1, 0));
}

#[tokio::test]
async fn what_is_not_settled_is_given_up_and_never_runs_again() {
    let shop = Shop::open().await;
    let samekey = shop.serve("give_up = \"1s\"").start().await;
    shop.fate(Fate::Lost);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let given_up = samekey.until(&Request::order("k"), |answer| answer.receipt().state == "failed").await;
    given_up.refuses(409, "response_not_stored", "done", "failed");
    assert_eq!(given_up.receipt().effect.as_deref(), Some("unknown"));
    assert_eq!(shop.commands("k"), 1);
    let line = samekey.logs.line_with("event=\"settled\"").await.expect("a line");
    assert!(line.contains("by=\"sweeper\"") && line.contains("gave_up"), "{line}");
}

#[tokio::test]
async fn a_record_of_yesterdays_contract_is_settled_by_todays() {
    let shop = Shop::open().await;
    let samekey = shop.serve("").start().await;
    shop.fate(Fate::Lost);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    std::fs::write(samekey.serve().folder().join("samekey.toml"), operation(PROBED)).expect("the file");
    samekey.signal(Signal::HUP);
    samekey.logs.line_with("were read anew").await.expect("a log line");
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(found.replayed());
    assert_eq!(shop.commands("k"), 1);
}

#[tokio::test]
async fn the_service_is_asked_over_tls_by_the_callers_id_and_with_the_configured_headers() {
    let shop = Shop::open().await;
    let authority = Authority::default();
    let addr = authority.before(shop.upstream.addr(), "127.0.0.1").await;
    let serve = Serve::to(&format!("https://{addr}"));
    let ca = authority.file(serve.folder());
    let serve = serve.set("--upstream-ca", ca.to_str().expect("a path")).set("--actor", "header:X-User");
    let table = format!("{PROBED}\nheaders = {{ authorization = \"env:PROBE_TOKEN\", x-shop = \"7\" }}");
    let samekey = shop.behind(serve, &table).env("PROBE_TOKEN", "Bearer s3cret").start().await;
    shop.fate(Fate::Lost);
    let order = Request::order("k").anonymous().header("X-User", "ann");
    samekey.send(&order).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    samekey.until(&order, |answer| answer.status == 201).await;
    let question = shop.questions("k").remove(0);
    assert_eq!(question.headers.all("samekey-actor"), ["ann"]);
    assert_eq!(
        (question.headers.all("authorization"), question.headers.all("x-shop")),
        (vec!["Bearer s3cret".to_owned()], vec!["7".to_owned()])
    );
    assert!(!samekey.logs.text().contains("s3cret"), "{}", samekey.logs.text());
}

#[tokio::test]
async fn a_refusal_that_was_lost_is_the_answer_too() {
    let shop = Shop::open().await;
    shop.answers(|_, order| match order {
        Some(_) => Reply::json(422, r#"{"error":"sold out"}"#).header("Samekey-Outcome", "terminal"),
        None => honest(None),
    });
    let samekey = shop.serve(PROBED).start().await;
    shop.fate(Fate::Lost);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 422).await;
    assert!(found.replayed());
    assert_eq!((found.receipt().state.as_str(), found.text().as_str()), ("failed", r#"{"error":"sold out"}"#));
}
