//! Answer × state: every code that the enum has, produced through the real binary, with everything its answer must
//! and must not carry. A code without a recipe fails.

use std::time::Duration;

use samekey_core::problem::{Code, Next};
use support::patience::within;
use support::{Answer, Connection, Gate, Receipt, Reply, Request, Serve, Server, Upstream, keys};

/// Codes of the admin listener: its answers are about claims and records, not about the delivery of a key.
const ADMIN: [Code; 6] = [
    Code::ClaimStale,
    Code::EffectUnfinished,
    Code::ClaimNotFound,
    Code::Forbidden,
    Code::RequestInvalid,
    Code::RecordChanged,
];

/// What a recipe made: the refusal, its receipt in full, and the server that gave it.
struct Made {
    answer: Answer,
    /// Empty: none.
    receipt: &'static str,
    samekey: Server,
    /// Goes away last.
    _upstream: Upstream,
}

/// What a recipe begins with.
struct Kitchen {
    upstream: Upstream,
    serve: Serve,
}

impl Kitchen {
    async fn new() -> Self {
        let upstream = Upstream::start().await;
        let serve = Serve::before(&upstream);
        Self { upstream, serve }
    }

    fn set(mut self, flag: &str, value: &str) -> Self {
        self.serve = self.serve.set(flag, value);
        self
    }

    fn next(self, reply: Reply) -> Self {
        self.upstream.next(reply);
        self
    }

    /// Sends all of them; the last one's answer is the refusal.
    async fn sends(self, requests: &[Request], receipt: &'static str) -> Made {
        let samekey = self.serve.start().await;
        let mut answers = Vec::new();
        for request in requests {
            answers.push(samekey.send(request).await);
        }
        let answer = answers.pop().expect("a request");
        Made { answer, receipt, samekey, _upstream: self.upstream }
    }

    /// The first request runs; the second one's answer is the refusal.
    async fn while_running(self, first: &Request, second: &Request, receipt: &'static str) -> Made {
        let gate = Gate::new();
        self.upstream.next(Reply::json(201, "{}").gated(&gate));
        let samekey = self.serve.start().await;
        let running = samekey.spawn(first);
        self.upstream.ledger().arrived(1).await;
        let answer = samekey.send(second).await;
        gate.open();
        running.await.expect("an answer").ran(201, "completed", 1);
        Made { answer, receipt, samekey, _upstream: self.upstream }
    }
}

impl Kitchen {
    /// A claim is won, and all these calls are made of it, or of anything else; the last one's answer is the refusal.
    async fn claims(self, calls: &[(&str, &str)], receipt: &'static str) -> Made {
        let samekey = self.serve.config("[[operation]]\nname = \"invoice.send\"\n").start().await;
        let token = samekey.token();
        let post = async |path: &str, body: &str| samekey.admin_as(&token, &Request::post(path).json(body)).await;
        let claim = r#"{"actor": "ann", "operation": "invoice.send", "key": "k", "payload": 1, "holder": "h"}"#;
        let claim = post("/v1/claims", claim).await.json();
        let (id, record) = (claim["claim_id"].as_str().expect("a claim").to_owned(), claim["record"].to_string());
        let mut last = None;
        for (path, body) in calls {
            let path =
                path.replace("CLAIM", &format!("/v1/claims/{id}")).replace("RECORD", &format!("/v1/records/{record}"));
            last = Some(post(&path, body).await);
        }
        Made { answer: last.expect("a call"), receipt, samekey, _upstream: self.upstream }
    }
}

/// `None`: there is no way to hear it yet.
async fn make(code: Code) -> Option<Made> {
    let kitchen = Kitchen::new().await;
    let order = Request::order("k");
    let other = Request::post("/orders").key("k").json("[]");
    let status = |method| Request::new(method, "/.well-known/samekey/status?operation=POST%20%2Forders").key("k");
    Some(match code {
        Code::OperationInProgress => {
            kitchen.set("--default-wait", "0s").while_running(&order, &order, "in_progress;attempt=1").await
        }
        Code::OutcomeUncertain => kitchen.next(Reply::reset()).sends(&[order], "uncertain;attempt=1").await,
        Code::KeyPayloadMismatch => kitchen.sends(&[order, other], "refused").await,
        Code::KeyExpired => {
            let old = Request::order(&keys::v7_aged(Duration::from_secs(31 * 86_400)));
            kitchen.sends(&[old], "expired").await
        }
        Code::ResponseNotStored => {
            kitchen.set("--max-response", "4B").sends(&[order.clone(), order], "completed;attempt=1").await
        }
        Code::KeyRequired => {
            kitchen.set("--key", "required").sends(&[Request::post("/orders").json("{}")], "refused").await
        }
        Code::KeyInvalid => kitchen.sends(&[Request::order("a, b")], "refused").await,
        Code::BodyInvalid => {
            let samekey = kitchen.serve.start().await;
            let mut client = Connection::open(samekey.addr).await;
            client.send(&Request::post("/orders").key("k").json("{}").chunked().head_bytes()).await;
            client.send(b"no chunk\r\n").await;
            let answer = client.answer().await;
            Made { answer, receipt: "refused", samekey, _upstream: kitchen.upstream }
        }
        Code::BodyTimeout => {
            let samekey = kitchen.serve.start().await;
            let mut client = Connection::open(samekey.addr).await;
            client.send(&Request::post("/orders").key("k").body("text/plain", [b'x'; 9]).head_bytes()).await;
            let answer = within(Duration::from_secs(40), "the end of patience", client.answer()).await;
            Made { answer, receipt: "none", samekey, _upstream: kitchen.upstream }
        }
        Code::OperationReleased => {
            let later = Reply::json(429, "{}").header("Retry-After", "60");
            kitchen.next(later).sends(&[order.clone(), order], "released;attempt=1").await
        }
        Code::KeyClosed => kitchen.sends(&[status("DELETE"), order], "refused").await,
        Code::ActorRequired => kitchen.sends(&[order.anonymous()], "none").await,
        Code::ActorChanged => {
            let order = Request::order(&keys::v4());
            kitchen.sends(&[order.clone(), order.actor("Bearer renewed")], "none").await
        }
        Code::PayloadTooLarge => kitchen.set("--max-body", "4B").sends(&[order], "refused").await,
        Code::QuotaExceeded => kitchen.set("--quota", "1").while_running(&order, &Request::order("k-2"), "none").await,
        Code::Overloaded => kitchen.set("--min-free", "1000TiB").sends(&[order], "unknown").await,
        Code::StoreUnavailable => {
            let samekey = kitchen.serve.start().await;
            samekey.send(&order).await.ran(201, "completed", 1);
            // Of a version to come: to call it a mismatch, or to run again, would be a guess.
            let file = rusqlite::Connection::open(samekey.serve().store()).expect("the store");
            file.execute("UPDATE idempotency_keys SET payload_hash = 'fp9:' || payload_hash", []).expect("an update");
            let answer = samekey.send(&order).await;
            Made { answer, receipt: "unknown", samekey, _upstream: kitchen.upstream }
        }
        Code::UpstreamUnreachable => {
            kitchen.upstream.refuse().await;
            kitchen.sends(&[order], "released;attempt=1").await
        }
        Code::UpstreamTimeout => {
            let quick = kitchen.set("--timeout", "300ms").set("--probe-after", "500ms");
            quick.next(Reply::silence()).sends(&[order], "uncertain;attempt=1").await
        }
        Code::ClaimStale => kitchen.claims(&[("CLAIM/complete", "{}"), ("CLAIM/heartbeat", "{}")], "").await,
        Code::EffectUnfinished => kitchen.claims(&[("CLAIM/effects/mail", "{}"), ("CLAIM/complete", "{}")], "").await,
        Code::ClaimNotFound => kitchen.claims(&[("/v1/claims/x/complete", "{}")], "").await,
        Code::RequestInvalid => kitchen.claims(&[("CLAIM/complete", r#"{"status": "200"}"#)], "refused").await,
        Code::RecordChanged => {
            let settle = r#"{"revision": 1, "outcome": "completed", "who": "ann", "why": "found it"}"#;
            kitchen.claims(&[("CLAIM/complete", "{}"), ("RECORD/settle", settle)], "").await
        }
        Code::Forbidden => {
            let token = "0123456789abcdef0123456789abcdef";
            let file = kitchen.serve.folder().join("samekey.token");
            std::fs::write(&file, format!("read {token}\n")).expect("a token file");
            let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&file, owner).expect("its mode");
            let samekey = kitchen.serve.start().await;
            let answer = samekey.admin_as(token, &Request::post("/v1/claims").json("{}")).await;
            Made { answer, receipt: "", samekey, _upstream: kitchen.upstream }
        }
        _ => return None,
    })
}

/// Headers that a refusal has or has not, by what the contract says of it.
fn check_headers(code: Code, answer: &Answer) {
    let (row, name) = (code.row(), code.as_str());
    let has = |header: &str| answer.header(header).is_some();
    assert_eq!(answer.header("content-type").as_deref(), Some("application/problem+json"), "{name}");
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"), "{name}");
    assert_eq!(has("x-request-id"), !ADMIN.contains(&code), "{name}: whoever asks for help can name the delivery");
    assert!(!has("idempotent-replayed"), "{name}: a refusal is no replay");
    assert_eq!(has("www-authenticate"), row.status == 401, "{name}: RFC 9110, section 15.5.2");
    let again = matches!(row.next, Next::Wait | Next::RetrySameKey);
    let should = if again { "true" } else { "false" };
    assert_eq!(answer.header("stripe-should-retry").as_deref(), Some(should), "{name}: Stripe-Should-Retry");
    assert_eq!(has("retry-after"), again, "{name}: whoever is to come again hears when");
    if again {
        assert!(answer.retry_after().is_some_and(|after| after > 0), "{name}: never at once");
        assert_eq!(answer.json()["retry_after"].as_u64(), answer.retry_after(), "{name}");
    }
    let open = [Code::OperationInProgress, Code::OutcomeUncertain, Code::UpstreamTimeout].contains(&code);
    let link = match row.status {
        _ if open => Some("</.well-known/samekey/status?operation=POST%20%2Forders>; rel=\"status\"".to_owned()),
        400 => Some(format!("</.well-known/samekey/problems/{name}>; rel=\"describedby\"")),
        _ => None,
    };
    assert_eq!(answer.header("link"), link, "{name}");
    assert_eq!(has("location"), code == Code::ResponseNotStored, "{name}: Location");
    assert!(!has("samekey-attempt") && !has("samekey-outcome") && !has("samekey-provider-key"), "{name}");
}

fn check_body(code: Code, answer: &Answer, receipt: Option<&Receipt>) {
    let (row, json) = (code.row(), answer.json());
    let attempt = receipt.and_then(|receipt| receipt.attempt);
    for (member, expected) in [
        ("type", format!("/.well-known/samekey/problems/{}", row.name)),
        ("title", row.title.to_owned()),
        ("code", row.name.to_owned()),
        ("next", row.next.as_str().to_owned()),
    ] {
        assert_eq!(json[member], expected, "{member} of {}", row.name);
    }
    assert_eq!(json["status"], row.status, "{json}");
    assert!(json["detail"].as_str().is_some_and(|detail| detail.len() > 20), "{json}");
    assert_eq!(json["error"]["code"], row.name, "for Stripe's SDKs: {json}");
    if code != Code::ClaimStale {
        assert_eq!(json["attempt"].as_u64(), attempt.map(u64::from), "the attempt of the receipt: {json}");
    }
    let mut further: Vec<&str> = match code {
        Code::ClaimStale => vec!["attempt", "state"],
        Code::EffectUnfinished => vec!["effects"],
        Code::RequestInvalid => vec!["member"],
        Code::RecordChanged => vec!["revision", "state"],
        Code::ResponseNotStored => vec!["result_id", "status_code"],
        Code::KeyExpired => vec!["key_time", "server_time"],
        Code::PayloadTooLarge => vec!["max_body"],
        _ => vec![],
    };
    further.extend(["type", "title", "status", "detail", "code", "next", "error"]);
    further.extend(attempt.map(|_| "attempt"));
    further.extend(answer.retry_after().map(|_| "retry_after"));
    further.sort_unstable();
    let members: Vec<&str> = json.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members, further, "members of {}", row.name);
}

async fn check(code: Code) {
    let Some(Made { answer, receipt, samekey, _upstream }) = make(code).await else {
        panic!("{}: write a recipe for the new code", code.as_str())
    };
    assert_eq!(answer.status, code.row().status, "{}: {}", code.as_str(), answer.text());
    let receipt = Some(receipt).filter(|receipt| !receipt.is_empty());
    assert_eq!(answer.header("samekey-state").as_deref(), receipt, "{}: {}", code.as_str(), answer.text());
    let receipt = receipt.map(|_| answer.receipt());
    if let Some(word) = code.row().word {
        assert_eq!(
            receipt.as_ref().map(|receipt| receipt.state.as_str()),
            Some(word.as_str()),
            "core's row says it, too"
        );
    }
    check_headers(code, &answer);
    check_body(code, &answer, receipt.as_ref());
    let page = answer.json()["type"].as_str().expect("a type").to_owned();
    let page = samekey.send(&Request::new("GET", &page).anonymous().header("Accept", "text/html")).await;
    assert_eq!(page.status, 200, "{}", code.as_str());
    assert!(page.text().contains(code.as_str()) && page.text().contains(code.row().title), "{}", page.text());
}

/// A few at once: most of the time a recipe waits for a process to start.
const AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_code_is_heard_as_its_row_says() {
    let mut failed = Vec::new();
    for codes in Code::ALL.chunks(AT_ONCE) {
        let checks: Vec<_> = codes.iter().map(|code| (code, tokio::spawn(check(*code)))).collect();
        for (code, check) in checks {
            if check.await.is_err() {
                failed.push(code.as_str());
            }
        }
    }
    assert!(failed.is_empty(), "the panics above say why: {failed:?}");
}

#[tokio::test]
async fn under_the_draft_another_payload_is_422() {
    let kitchen = Kitchen::new().await.set("--profile", "ietf");
    let other = Request::post("/orders").key("k").json("[]");
    let made = kitchen.sends(&[Request::order("k"), other], "refused").await;
    assert_eq!((made.answer.status, &made.answer.json()["status"]), (422, &422.into()));
    assert_eq!(made.answer.header("samekey-state").as_deref(), Some(made.receipt));
}

/// Whatever the service answers, the answer on a covered route says how the key stands, and so does the next one.
#[tokio::test]
async fn every_answer_on_a_covered_route_has_a_receipt() {
    let upstream = Upstream::start().await;
    upstream.script(|received| {
        let status = received.headers.one("x-answer").and_then(|status| status.parse().ok()).unwrap_or(500);
        let reply = if matches!(status, 204 | 304) { Reply::empty(status) } else { Reply::json(status, "{}") };
        // What a service says in our name is not believed.
        reply.header("Samekey-State", "completed;attempt=99").header("Idempotent-Replayed", "true")
    });
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    for status in (200..=599).chain([600, 799, 999]) {
        let key = format!("status-{status}");
        let request = Request::order(&key).header("X-Answer", status.to_string());
        let first = client.exchange(&request).await;
        let receipt = first.receipt();
        let expected = match status {
            200..=399 => "completed",
            401 | 403 | 407 | 423 | 425 | 429 => "released",
            408 | 499 | 502..=504 | 520..=527 | 598.. => "uncertain",
            _ => "failed",
        };
        assert_eq!((receipt.state.as_str(), receipt.attempt), (expected, Some(1)), "{status}: {}", first.text());
        assert_eq!(receipt.effect.as_deref() == Some("unknown"), expected == "failed" && status >= 500, "{status}");
        assert!(!first.replayed(), "{status}");
        match expected {
            "uncertain" => drop(first.refuses(409, "outcome_uncertain", "follow_status", "uncertain")),
            _ => assert_eq!(first.status, status),
        }
        let second = client.exchange(&request).await;
        match expected {
            "released" => assert_eq!(second.receipt().attempt, Some(2), "{status}"),
            "uncertain" => drop(second.refuses(409, "outcome_uncertain", "follow_status", "uncertain")),
            _ => second.replays(&first),
        }
        let asked = Request::new("GET", "/.well-known/samekey/status?operation=POST%20%2Forders").key(&key);
        assert_eq!(client.exchange(&asked).await.receipt().state, expected, "{status}");
    }
}
