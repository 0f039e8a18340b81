//! What samekey promises, step by step, to somebody who does not believe it: real processes, real sockets, a network
//! that loses what it likes, and a service whose own books say what really happened.

mod operator;
mod shop;
mod storm;

use std::time::Duration;

use operator::Operator;
use rusqlite::Connection as Database;
use shop::{Fate, Shop};
use support::patience::patiently;
use support::relay::{Loss, Relay};
use support::{Answer, Connection, Gate, Request, Server, keys};

/// Two cups of tea for ann.
fn order(key: &str) -> Request {
    intent("/orders", key)
}

fn intent(path: &str, key: &str) -> Request {
    Request::post(path).anonymous().header("X-User", "ann").key(key).json(r#"{"sku":"tea","qty":2}"#)
}

/// What the server knows of a key, for whoever may know it.
async fn status(samekey: &Server, operation: &str, key: &str) -> serde_json::Value {
    let path = format!("/.well-known/samekey/status?operation={operation}");
    samekey.send(&Request::new("GET", &path).anonymous().header("X-User", "ann").key(key)).await.json()
}

async fn through(relay: &Relay, request: &Request) -> std::io::Result<Answer> {
    let mut connection = Connection::try_open(relay.addr()).await?;
    connection.request(request).await;
    connection.try_answer().await
}

#[tokio::test]
async fn eight_steps_for_a_sceptic() {
    let shop = Shop::open().await;
    let samekey = shop.serve().start().await;
    let network = Relay::before(samekey.addr).await;

    // 1. A command runs once, and its answer is stored before it is sent.
    //    While nothing can be written the service has answered already, and the caller has not heard it.
    let gate = Gate::new();
    shop.fate(Fate::Held(gate.clone()));
    let first = samekey.spawn(&order("one"));
    shop.until_made("one").await;
    let file = Database::open(samekey.serve().store()).expect("the store's file");
    file.execute_batch("BEGIN IMMEDIATE").expect("nobody else may write");
    gate.open();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!first.is_finished(), "no answer before it is stored");
    file.execute_batch("ROLLBACK").expect("others may write again");
    let first = first.await.expect("the answer");
    first.ran(201, "completed", 1);
    let stored = "SELECT status_code FROM idempotency_keys WHERE idem_key = 'one' AND state = 'completed'";
    assert_eq!(file.query_row(stored, [], |row| row.get(0)), Ok(201));
    samekey.send(&order("one")).await.replays(&first);
    assert_eq!((shop.made("one").len(), shop.commands("one")), (1, 1));

    // 2. The answer is lost on the wire. The retry gets the very same: status, body, headers and the result's id. The
    //    service is not asked again.
    shop.fate(Fate::Answered);
    network.plan(&[Loss::Reset]);
    through(&network, &order("two")).await.expect_err("a reset in place of the answer");
    let retry = through(&network, &order("two")).await.expect("an answer");
    let made = shop.made("two").remove(0);
    assert!(retry.replayed());
    assert_eq!((retry.status, retry.text()), (201, format!(r#"{{"id":"{made}"}}"#)));
    let header = |name: &str| retry.header(name).unwrap_or_default();
    assert_eq!((header("location"), header("etag")), (format!("/{made}"), "\"1\"".to_owned()));
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(status(&samekey, "orders.create", "two").await["result_id"], made);
    samekey.send(&order("two")).await.replays(&retry);
    assert_eq!((shop.made("two").len(), shop.commands("two")), (1, 1));

    // 3. Two deliveries at one moment: one runs, the other one waits and gets the same answer.
    let gate = Gate::new();
    shop.fate(Fate::Held(gate.clone()));
    let patient = order("three").header("Prefer", "wait=10");
    let (one, other) = (samekey.spawn(&patient), samekey.spawn(&patient));
    shop.until_made("three").await;
    gate.open();
    let (one, other) = (one.await.expect("an answer"), other.await.expect("an answer"));
    let (ran, waited) = if one.replayed() { (other, one) } else { (one, other) };
    ran.ran(201, "completed", 1);
    waited.replays(&ran);
    assert_eq!((shop.made("three").len(), shop.commands("three")), (1, 1));

    // 4. The same key with something else in it is refused before the service hears of it.
    shop.fate(Fate::Answered);
    let other = order("three").json(r#"{"sku":"coffee","qty":2}"#);
    samekey.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    assert_eq!(shop.commands("three"), 1);

    // 5. The process is killed: the effect has happened, and no answer is stored. After the start a retry hears that
    //    nobody knows the outcome, and nothing runs.
    shop.fate(Fate::Silent);
    let lost = [samekey.spawn(&order("five")), samekey.spawn(&intent("/parcels", "five-too"))];
    shop.until_made("five").await;
    shop.until_made("five-too").await;
    let samekey = samekey.kill().await.start().await;
    for heard in lost {
        assert!(heard.await.is_err(), "nobody heard anything");
    }
    shop.fate(Fate::Answered);
    for (intent, key) in [(order("five"), "five"), (intent("/parcels", "five-too"), "five-too")] {
        let judged = samekey.send(&intent.header("Prefer", "wait=10")).await;
        judged.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
        assert_eq!((shop.made(key).len(), shop.commands(key)), (1, 1));
    }

    // 6. What is unknown comes to an end. Orders have a probe: samekey asks the service, and the retry gets the answer
    //    that was lost. Parcels have none: a person looks, and settles what was looked at.
    let found = samekey.until(&order("five"), |answer| answer.status == 201).await;
    assert!(found.replayed());
    assert_eq!(found.json()["id"], shop.made("five")[0]);
    let person = Operator::of(&samekey);
    let seen = person.looks_at("five-too").await;
    person.settles(&seen, Some(&shop.made("five-too")[0])).await.expect("it is as it was looked at");
    person.settles(&seen, None).await.expect_err("it is not as it was looked at any more");
    let settled = samekey.send(&intent("/parcels", "five-too")).await;
    assert!(settled.replayed());
    assert_eq!((settled.status, &settled.json()["id"]), (201, &shop.made("five-too")[0].as_str().into()));
    for key in ["five", "five-too"] {
        assert_eq!((shop.made(key).len(), shop.commands(key)), (1, 1));
    }

    // 7. Nothing was sent: the key is free, and the same key runs.
    shop.upstream.refuse().await;
    let refused = samekey.send(&order("seven")).await;
    refused.refuses(502, "upstream_unreachable", "retry_same_key", "released");
    shop.upstream.accept();
    samekey.until(&order("seven"), |answer| answer.status == 201).await.ran(201, "completed", 2);
    assert_eq!((shop.made("seven").len(), shop.commands("seven")), (1, 1));

    // 8. Everything is forgotten, and then a late retry comes: it is told so, and nothing runs.
    let short = samekey.stop().await.set("--timeout", "1s").set("--probe-after", "1s").waits("100ms", "500ms");
    let short = short.set("--retry-budget", "500ms").set("--retention", "4s").set("--remember", "4s");
    let mut started = short.start().await;
    let key = keys::v7();
    started.send(&order(&key)).await.ran(201, "completed", 1);
    let rows = format!("SELECT count(*) FROM idempotency_keys WHERE idem_key = '{key}'");
    let samekey = patiently("forgetting", async {
        while file.query_row(&rows, [], |row| row.get(0)) != Ok(0) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Whoever starts sweeps first of all, and not a minute later.
            started = started.stop().await.start().await;
        }
        started
    })
    .await;
    samekey.send(&order(&key)).await.refuses(410, "key_expired", "ask", "expired");
    assert_eq!((shop.made(&key).len(), shop.commands(&key)), (1, 1));

    // And over all of it: what was told done happened, and nothing happened twice.
    for key in ["one", "two", "three", "five", "five-too", "seven", &key] {
        assert_eq!(shop.made(key).len(), 1, "{key}");
    }
}
