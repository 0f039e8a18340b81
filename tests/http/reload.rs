//! SIGHUP: the operations anew, all or nothing.

use rustix::process::Signal;
use support::{Gate, Reply, Request, Serve, Server, Upstream};

fn operations(keys: &str) -> String {
    format!("[[operation]]\nname = \"orders.create\"\nmethod = \"POST\"\npath = \"/orders\"\n{keys}\n")
}

/// Writes the file anew, sends the signal, and waits for this line.
async fn reload(samekey: &Server, text: &str, line: &str) -> String {
    std::fs::write(samekey.serve().folder().join("samekey.toml"), text).expect("the file");
    samekey.signal(Signal::HUP);
    samekey.logs.line_with(line).await.expect("a log line")
}

const READ: &str = "were read anew";
const KEPT: &str = "stay as they were";

#[tokio::test]
async fn new_rules_hold_for_new_requests_and_old_ones_for_what_runs() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).config(&operations("keep = \"full\"")).start().await;
    assert!(samekey.send(&Request::post("/orders")).await.header("samekey-state").is_none(), "no key, no rule");
    let gate = Gate::new();
    upstream.next(Reply::json(404, "{}").gated(&gate));
    let running = samekey.spawn(&Request::order("running"));
    upstream.ledger().arrived(2).await;
    reload(&samekey, &operations("key = \"required\"\nkeep = \"status\"\nrelease = [404]"), READ).await;
    samekey.send(&Request::post("/orders")).await.refuses(400, "idempotency_key_required", "fix_request", "refused");
    gate.open();
    let first = running.await.expect("an answer");
    first.ran(404, "failed", 1);
    samekey.send(&Request::order("running")).await.replays(&first);
    upstream.next(Reply::json(404, "{}"));
    assert_eq!(samekey.send(&Request::order("new")).await.receipt().state, "released");
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_all_its_errors_are_logged() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).config(&operations("key = \"required\"")).start().await;
    let bad = operations("key = \"optional\"\nlease = 3\ncolour = 1");
    reload(&samekey, &bad, KEPT).await;
    let logged = samekey.logs.text();
    assert!(logged.contains("samekey.toml:6: lease") && logged.contains("samekey.toml:7: colour"), "{logged}");
    samekey.send(&Request::post("/orders")).await.refuses(400, "idempotency_key_required", "fix_request", "refused");
    reload(&samekey, &operations("key = \"optional\""), READ).await;
    assert!(samekey.send(&Request::post("/orders")).await.header("samekey-state").is_none());
}

#[tokio::test]
async fn a_file_that_leaves_records_without_a_name_changes_nothing() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).config(&operations("")).start().await;
    let first = samekey.send(&Request::order("k")).await;
    first.ran(201, "completed", 1);
    reload(&samekey, &operations("").replace("orders.create", "orders.new"), KEPT).await;
    assert!(samekey.logs.text().contains("orders.create: 1"), "{}", samekey.logs.text());
    samekey.send(&Request::order("k")).await.replays(&first);
    let renamed = operations("aliases = [\"orders.create\"]").replacen("orders.create", "orders.new", 1);
    reload(&samekey, &renamed, READ).await;
    samekey.send(&Request::order("k")).await.replays(&first);
}

#[tokio::test]
async fn what_cannot_change_is_named() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).config(&format!("queue = 64\n{}", operations(""))).start().await;
    let text = format!(
        "profile = \"ietf\"\nqueue = 65\n[actor]\nfrom = \"header:X-User\"\n{}",
        operations("key = \"required\"")
    );
    reload(&samekey, &text, READ).await;
    let logged = samekey.logs.text();
    for key in ["profile", "queue", "actor"] {
        assert!(logged.contains(&format!("{key} changed")), "{key} in {logged}");
    }
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    let other = samekey.send(&Request::post("/orders").key("k").json("{}")).await;
    other.refuses(409, "key_payload_mismatch", "new_intent", "refused");
    samekey.send(&Request::post("/orders")).await.refuses(400, "idempotency_key_required", "fix_request", "refused");
}
