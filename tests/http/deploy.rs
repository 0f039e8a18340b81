//! A deploy over open records: whatever changes, a retry ends in its first answer, and nothing runs twice.

use support::{Answer, Reply, Request, Serve, Upstream};

fn operation(name: &str, keys: &str) -> String {
    format!("[[operation]]\nname = \"{name}\"\nmethod = \"POST\"\npath = \"/orders/{{id}}/pay\"\n{keys}\n")
}

fn pay(key: &str) -> Request {
    Request::post("/orders/7/pay").key(key).json(r#"{"amount":1,"ui":2}"#)
}

/// The first answer under one configuration; then how to start over its store.
async fn first(upstream: &Upstream, text: &str) -> (Answer, Serve) {
    let samekey = Serve::before(upstream).config(text).start().await;
    let first = samekey.send(&pay("k")).await;
    first.ran(201, "completed", 1);
    (first, samekey.stop().await)
}

#[tokio::test]
async fn each_change_of_the_contract_finds_the_first_answer() {
    let upstream = Upstream::start().await;
    let plain = operation("orders.pay", "");
    for (why, before, after) in [
        ("renamed, with alias", plain.clone(), operation("payments.create", "aliases = [\"orders.pay\"]")),
        ("named for the first time", String::new(), plain.clone()),
        ("an exclude more", plain.clone(), operation("orders.pay", "significant.exclude = [\"/ui\"]")),
        ("an exclude less", operation("orders.pay", "significant.exclude = [\"/ui\"]"), plain.clone()),
        ("include", plain.clone(), operation("orders.pay", "significant.include = [\"/amount\"]")),
        ("parameter renamed", plain.clone(), plain.replace("{id}", "{order}")),
        ("path widened", plain.clone(), plain.replace("{id}/pay", "{*rest}")),
        (
            "named, with a changed profile",
            String::new(),
            operation("orders.pay", "significant.include = [\"/amount\"]"),
        ),
        (
            "renamed back",
            operation("new", "aliases = [\"orders.pay\"]"),
            operation("orders.pay", "aliases = [\"new\"]"),
        ),
        (
            "file without operations, then one alias",
            String::new(),
            operation("x", "aliases = [\"POST /orders/7/pay\"]"),
        ),
        (
            "path moved, old one an alias",
            plain.clone(),
            operation("orders.pay", "aliases = [\"POST /orders/{id}/pay\"]").replacen("/orders/", "/v2/", 1),
        ),
    ] {
        let (first, serve) = first(&upstream, &before).await;
        let runs = upstream.ledger().count();
        let samekey = serve.config(&after).start().await;
        samekey.send(&pay("k")).await.replays(&first);
        assert_eq!(upstream.ledger().count(), runs, "{why}");
        let other = Request::post("/orders/7/pay").key("k").json(r#"{"amount":2,"ui":2}"#);
        let refused = samekey.send(&other).await;
        refused.refuses(409, "key_payload_mismatch", "new_intent", "refused");
        if why.starts_with("path moved") {
            let moved = Request::post("/v2/7/pay").key("k").json(r#"{"amount":1,"ui":2}"#);
            samekey.send(&moved).await.replays(&first);
            let other = Request::post("/v2/8/pay").key("k").json(r#"{"amount":1,"ui":2}"#);
            samekey.send(&other).await.refuses(409, "key_payload_mismatch", "new_intent", "refused");
        }
    }
}

/// Starts over records that nothing names.
fn anyway(serve: &Serve) -> Serve {
    serve.clone().env("SAMEKEY_ACCEPT_UNNAMED_RECORDS", "true")
}

/// Changes the stopped store behind the server's back.
fn edit(serve: &Serve, sql: &str) {
    let store = rusqlite::Connection::open(serve.store()).expect("the store");
    assert_ne!(store.execute(sql, []).expect("an edit"), 0, "{sql}");
}

#[tokio::test]
async fn records_that_nothing_names_keep_the_server_from_starting() {
    let upstream = Upstream::start().await;
    for text in [operation("payments.create", ""), String::new()] {
        let (first, serve) = first(&upstream, &operation("orders.pay", "")).await;
        let runs = upstream.ledger().count();
        let serve = serve.config(&text);
        let (_, said) = serve.refused().await;
        assert!(said.contains("orders.pay: 1") && said.contains("aliases = [\"orders.pay\"]"), "{said}");
        // Told otherwise, it starts; the key still does not run a second time.
        let samekey = anyway(&serve).start().await;
        let refused = samekey.send(&pay("k")).await;
        refused.refuses(503, "store_unavailable", "retry_same_key", "unknown");
        samekey.stop().await;
        let samekey = serve.config(&operation("orders.pay", "")).start().await;
        samekey.send(&pay("k")).await.replays(&first);
        assert_eq!(upstream.ledger().count(), runs);
    }
}

#[tokio::test]
async fn only_live_records_under_given_names_count() {
    let upstream = Upstream::start().await;
    let (_, serve) = first(&upstream, "").await;
    serve.config(&operation("payments.create", "")).start().await.stop().await;
    for (live, sql) in [
        (true, "UPDATE idempotency_keys SET state = 'in_progress'"),
        (true, "UPDATE idempotency_keys SET state = 'uncertain'"),
        (true, "UPDATE idempotency_keys SET state = 'released'"),
        (true, "UPDATE idempotency_keys SET state = 'failed'"),
        (false, "UPDATE idempotency_keys SET expires_at = 1"),
        (false, "UPDATE idempotency_keys SET state = 'expired', ended = 'completed'"),
    ] {
        let (_, serve) = first(&upstream, &operation("orders.pay", "")).await;
        edit(&serve, sql);
        let serve = serve.config(&operation("payments.create", ""));
        if live {
            assert!(serve.refused().await.1.contains("orders.pay: 1"), "{sql}");
            continue;
        }
        // It has no answer any more, but the key is still remembered, and does not run.
        let runs = upstream.ledger().count();
        let samekey = serve.start().await;
        samekey.send(&pay("k")).await.refuses(503, "store_unavailable", "retry_same_key", "unknown");
        assert_eq!(upstream.ledger().count(), runs, "{sql}");
    }
}

#[tokio::test]
async fn a_fingerprint_of_a_later_version_is_neither_run_nor_a_mismatch() {
    let upstream = Upstream::start().await;
    for sql in [
        "UPDATE idempotency_keys SET payload_hash = 'fp9:' || substr(payload_hash, 5)",
        "UPDATE idempotency_keys SET payload_hash = replace(payload_hash, ':json:', ':cbor:')",
    ] {
        let (first, serve) = first(&upstream, &operation("orders.pay", "")).await;
        let runs = upstream.ledger().count();
        edit(&serve, "UPDATE idempotency_keys SET result_id = payload_hash");
        edit(&serve, sql);
        let samekey = serve.start().await;
        for _ in 0..2 {
            samekey.send(&pay("k")).await.refuses(503, "store_unavailable", "retry_same_key", "unknown");
        }
        samekey.send(&pay("another")).await.ran(201, "completed", 1);
        let serve = samekey.stop().await;
        // The version that wrote it comes back.
        edit(&serve, "UPDATE idempotency_keys SET payload_hash = result_id WHERE idem_key = 'k'");
        serve.start().await.send(&pay("k")).await.replays(&first);
        assert_eq!(upstream.ledger().count(), runs + 1);
    }
}

#[tokio::test]
async fn a_profile_that_the_store_does_not_know_is_neither_run_nor_a_mismatch() {
    let upstream = Upstream::start().await;
    let (_, serve) = first(&upstream, &operation("orders.pay", "")).await;
    edit(&serve, "DELETE FROM samekey_profiles");
    let samekey = serve.config(&operation("orders.pay", "significant.exclude = [\"/ui\"]")).start().await;
    samekey.send(&pay("k")).await.refuses(503, "store_unavailable", "retry_same_key", "unknown");
    assert_eq!(upstream.effects("k"), 1);
}

#[tokio::test]
async fn an_open_record_stays_open_under_its_new_name() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).config(&operation("orders.pay", "")).start().await;
    upstream.next(Reply::reset());
    samekey.send(&pay("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    upstream.next(Reply::json(429, "{}"));
    assert_eq!(samekey.send(&pay("again")).await.receipt().state, "released");
    let serve = samekey.stop().await;
    let samekey = serve.config(&operation("payments.create", "aliases = [\"orders.pay\"]")).start().await;
    samekey.send(&pay("k")).await.refuses(409, "outcome_uncertain", "follow_status", "uncertain");
    samekey.send(&pay("again")).await.ran(201, "completed", 2);
    assert_eq!((upstream.effects("k"), upstream.effects("again")), (1, 2));
    let sent = upstream.ledger().all().into_iter().filter(|sent| sent.key().as_deref() == Some("again"));
    let for_provider: Vec<_> = sent.map(|sent| sent.headers.one("samekey-provider-key")).collect();
    assert!(for_provider[0].is_some() && for_provider[0] == for_provider[1], "the provider sees one command");
}

#[tokio::test]
async fn a_roll_back_needs_the_new_name_as_an_alias_and_says_so() {
    let upstream = Upstream::start().await;
    let (before, after) = (operation("orders.pay", ""), operation("payments.create", "aliases = [\"orders.pay\"]"));
    let (old, serve) = first(&upstream, &before).await;
    let samekey = serve.config(&after).start().await;
    let new = samekey.send(&pay("new")).await;
    new.ran(201, "completed", 1);
    let serve = samekey.stop().await.config(&before);
    assert!(serve.refused().await.1.contains("payments.create: 1"));
    let samekey = serve.config(&operation("orders.pay", "aliases = [\"payments.create\"]")).start().await;
    samekey.send(&pay("k")).await.replays(&old);
    samekey.send(&pay("new")).await.replays(&new);
    assert_eq!((upstream.effects("k"), upstream.effects("new")), (1, 1));
}

#[tokio::test]
async fn mixed_versions_on_one_store_never_run_a_key_twice() {
    let upstream = Upstream::start().await;
    for (before, after) in [
        (operation("orders.pay", ""), operation("payments.create", "aliases = [\"orders.pay\"]")),
        (String::new(), operation("orders.pay", "")),
        (operation("orders.pay", ""), operation("orders.pay", "significant.exclude = [\"/ui\"]")),
    ] {
        let old_serve = Serve::before(&upstream).config(&before);
        let new_serve = Serve::before(&upstream).config(&after).store_at(&old_serve.store());
        let (old, new) = (old_serve.start().await, new_serve.start().await);
        let first = old.send(&pay("of-the-old")).await;
        first.ran(201, "completed", 1);
        new.send(&pay("of-the-old")).await.replays(&first);
        let runs = upstream.ledger().count();
        let first = new.send(&pay("of-the-new")).await;
        first.ran(201, "completed", 1);
        // The old version may not know the name; then it says so, and the next retry meets the new one.
        let told = old.send(&pay("of-the-new")).await;
        if told.status == 503 {
            told.refuses(503, "store_unavailable", "retry_same_key", "unknown");
            old.logs.line_with("does not name").await.expect("the log says why");
        } else {
            told.replays(&first);
        }
        new.send(&pay("of-the-new")).await.replays(&first);
        assert_eq!(upstream.ledger().count(), runs + 1, "{after}");
    }
}
