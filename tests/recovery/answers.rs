//! Answers of a probe that settle nothing, and the check before any of them counts.

use std::time::Duration;
use support::patience::patiently;
use support::{Reply, Request, Upstream};

use crate::shop::{Fate, PROBED, Shop, honest};

/// What is wrong with an answer, by the key that is asked about.
fn wrong(key: &str) -> Reply {
    let says = |reply: Reply, outcome: &str| reply.header("Samekey-Outcome", outcome);
    match key {
        "crashed" => Reply::json(500, r#"{"error":"boom"}"#),
        "crashed-terminal" => says(Reply::json(500, "{}"), "terminal"),
        "moved" => Reply::empty(302).header("Location", "/sign-in"),
        "wrong-route" => Reply::json(404, r#"{"error":"no such route"}"#),
        "wrong-page" => Reply::with(200, "text/html", "<h1>Welcome</h1>"),
        "no-such-word" => says(Reply::json(404, "{}"), "absent"),
        "contradiction" => says(Reply::json(200, "{}"), "released"),
        "honest-doubt" => says(Reply::json(200, "{}"), "uncertain"),
        "cached" => says(Reply::json(404, "{}"), "released").header("Age", "30"),
        "slow" => says(Reply::json(404, "{}"), "released").after(Duration::from_secs(20)),
        "huge" => says(Reply::json(200, &format!("\"{}\"", "x".repeat(3 << 20))), "terminal"),
        "broken" => says(Reply::json(404, "{}"), "released").truncated(),
        "garbage" => Reply::raw("404 nothing of it\r\n\r\n").then_close(),
        "reset" => Reply::reset(),
        "closed" => Reply::hang_up(),
        other => panic!("{other} is no kind of wrong answer"),
    }
}

const WRONG: [&str; 15] = [
    "crashed",
    "crashed-terminal",
    "moved",
    "wrong-route",
    "wrong-page",
    "no-such-word",
    "contradiction",
    "honest-doubt",
    "cached",
    "slow",
    "huge",
    "broken",
    "garbage",
    "reset",
    "closed",
];

#[tokio::test]
async fn no_answer_without_the_proof_settles_anything() {
    let shop = Shop::open().await;
    shop.answers(|received, order| match received.key() {
        Some(key) if WRONG.contains(&key.as_str()) => wrong(&key),
        _ => honest(order),
    });
    let samekey = shop.serve(PROBED).start().await;
    shop.fate(Fate::Lost);
    for key in WRONG {
        samekey.send(&Request::order(key)).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    }
    patiently("a question about each", async {
        while WRONG.iter().any(|key| shop.questions(key).is_empty()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    // Longer than any of the questions may take.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    for key in WRONG {
        let still = samekey.send(&Request::order(key)).await;
        still.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        assert_eq!(shop.commands(key), 1, "{key}");
        assert!(shop.questions(key).len() <= 2, "{key}: one question, and its repetition on a new connection");
    }
    let redirected = shop.upstream.ledger().all().iter().any(|received| received.target == "/sign-in");
    assert!(!redirected, "no redirect is followed");
    let logs = samekey.logs.text();
    for result in ["result=\"unclear\"", "result=\"error\"", "again_s="] {
        assert!(logs.contains(result), "{result} in {logs}");
    }
    assert!(!logs.contains("event=\"settled\""), "{logs}");
}

#[tokio::test]
async fn a_service_that_cannot_be_reached_is_asked_again_and_then_settles_it() {
    let shop = Shop::open().await;
    let asked = Upstream::start().await;
    asked.script(|_| honest(None));
    let table = PROBED.replace("/internal/orders/by-key", &format!("{}/by-key", asked.url()));
    let samekey = shop.serve(&table).start().await;
    samekey.logs.line_with("event=\"probe_checked\"").await.expect("the probe is known to be right");
    asked.refuse().await;
    shop.fate(Fate::Refused);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let line = samekey.logs.line_with("result=\"error\"").await.expect("a question that failed");
    assert!(line.contains("could not be reached"), "{line}");
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    asked.accept();
    shop.fate(Fate::Answered);
    samekey.until(&Request::order("k"), |answer| answer.status == 201).await.ran(201, "completed", 2);
}

#[tokio::test]
async fn a_probe_that_does_not_know_unused_keys_settles_nothing_until_it_is_right() {
    let shop = Shop::open().await;
    // Somebody else's route: it answers everything in the same way.
    shop.answers(|_, _| Reply::json(200, r#"{"orders":[]}"#).header("Samekey-Outcome", "terminal"));
    let samekey = shop.serve(PROBED).start().await;
    let told = samekey.logs.line_with("event=\"probe_refused\"").await.expect("a line");
    assert!(told.contains("orders.create") && told.contains("does not look at"), "{told}");
    shop.fate(Fate::Lost);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    samekey.logs.line_with("result=\"error\"").await.expect("a question that was not put");
    assert!(shop.questions("k").is_empty(), "nobody asks whom nobody believes");
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    shop.answers(|_, order| honest(order));
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 201).await;
    assert!(found.replayed());
    assert_eq!(shop.commands("k"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_asks_each_probe_and_fails_on_a_wrong_one() {
    let shop = Shop::open().await;
    let serve = shop.serve(PROBED).set("--upstream", &shop.upstream.url());
    let checked = async |serve: &support::Serve, flags: &'static [&'static str]| {
        let serve = serve.clone();
        let output = tokio::task::spawn_blocking(move || serve.check(flags)).await.expect("check");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = checked(&serve, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("answers as it should"), "{said}");
    for (reply, why) in [
        (Reply::json(404, "{}"), "does not say by Samekey-Outcome"),
        (Reply::empty(302).header("Location", "/"), "it answered 302"),
        (Reply::json(200, "{}").header("Samekey-Outcome", "terminal"), "does not look at idempotency-key"),
        (Reply::silence(), "no answer within"),
    ] {
        shop.answers(move |_, _| reply.clone());
        let (code, said) = checked(&serve, &[]).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("error: orders.create: its probe settles nothing") && said.contains(why),
            "{why}: {said}"
        );
    }
    let (code, said) = checked(&serve, &["--json"]).await;
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, said["errors"][0]["operation"].as_str()), (Some(1), Some("orders.create")));
}

#[tokio::test]
async fn a_media_type_of_its_own_is_a_proof_too() {
    const OWN: &str = "application/vnd.shop.probe+json";
    let shop = Shop::open().await;
    shop.answers(|_, order| match order {
        Some(order) => Reply::with(200, OWN, format!(r#"{{"id":"{order}"}}"#)),
        None => Reply::with(404, OWN, "{}"),
    });
    let table = format!("{PROBED}\nmedia_type = \"{OWN}\"");
    let samekey = shop.serve(&table).start().await;
    shop.fate(Fate::Lost);
    samekey.send(&Request::order("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    let found = samekey.until(&Request::order("k"), |answer| answer.status == 200).await;
    assert!(found.replayed());
    assert_eq!(found.header("content-type").as_deref(), Some(OWN));
}
