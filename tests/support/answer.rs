//! An answer, and what the contract lets a test say about it.

use crate::receipt::Receipt;
use crate::wire::{Body, Head, Headers};
use serde_json::Value;

/// A whole answer as it came over the wire.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The header lines.
    pub headers: Headers,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// False: the connection ended before the body did.
    pub whole: bool,
    /// Lines after the last chunk.
    pub trailers: Headers,
}

/// A parsed `application/problem+json` answer.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What programs switch on.
    pub code: String,
    /// What to do.
    pub next: String,
    /// For people.
    pub detail: String,
    /// All members.
    pub json: Value,
}

/// Headers that a stored answer keeps; everything else may differ on a replay.
const KEPT: [&str; 10] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-disposition",
    "location",
    "etag",
    "last-modified",
    "link",
    "vary",
    "cache-control",
];

impl Answer {
    pub(crate) fn new(status: u16, head: Head, body: Body) -> Self {
        Self { status, headers: head.headers, body: body.bytes, whole: body.whole, trailers: body.trailers }
    }

    /// The only line of this name.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.one(name)
    }

    /// All lines of this name, in order.
    pub fn headers_all(&self, name: &str) -> Vec<String> {
        self.headers.all(name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("JSON, not {e} in {}", self.text()))
    }

    /// The receipt, which must be there once.
    pub fn receipt(&self) -> Receipt {
        let receipt = self.header("samekey-state");
        Receipt::parse(&receipt.unwrap_or_else(|| panic!("a Samekey-State in {self:?}")))
    }

    /// True if the answer says that it is a replay.
    pub fn replayed(&self) -> bool {
        let marked = self.header("idempotent-replayed");
        assert!(marked.is_none() || marked.as_deref() == Some("true"), "Idempotent-Replayed is true or absent");
        marked.is_some()
    }

    /// `Retry-After` in seconds.
    pub fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").map(|s| s.parse().unwrap_or_else(|_| panic!("Retry-After in seconds, not {s}")))
    }

    /// The problem, checked in the members that every problem has.
    pub fn problem(&self) -> Problem {
        assert_eq!(self.header("content-type").as_deref(), Some("application/problem+json"), "{}", self.text());
        assert!(self.whole, "a whole problem");
        let json = self.json();
        let text = |member: &str| -> String {
            let value = json[member].as_str();
            value.unwrap_or_else(|| panic!("a text {member} in {json}")).to_owned()
        };
        let (code, next) = (text("code"), text("next"));
        assert_eq!(json["status"], u64::from(self.status), "the member status is the status: {json}");
        assert!(text("type").ends_with(&format!("/problems/{code}")), "type names the code: {json}");
        assert!(!text("title").is_empty(), "a title: {json}");
        let detail = json["detail"].as_str().unwrap_or_default().to_owned();
        Problem { code, next, detail, json }
    }

    /// Asserts a refusal in all that the contract fixes: status, code, what to do next, receipt.
    #[track_caller]
    pub fn refuses(&self, status: u16, code: &str, next: &str, state: &str) -> Problem {
        let told = (self.status, self.header("samekey-state"), self.text());
        assert_eq!(self.status, status, "status of {code}, got {told:?}");
        let problem = self.problem();
        assert_eq!(problem.code, code, "{told:?}");
        assert_eq!(problem.next, next, "{told:?}");
        assert_eq!(self.receipt().state, state, "{told:?}");
        assert!(!self.replayed(), "a refusal is no replay");
        if let Some(should) = should_retry(code) {
            assert_eq!(self.header("stripe-should-retry").as_deref(), Some(should), "Stripe-Should-Retry of {code}");
        }
        problem
    }

    /// Asserts the first delivery's answer: not a replay, with this state and attempt.
    #[track_caller]
    pub fn ran(&self, status: u16, state: &str, attempt: u32) {
        assert_eq!(self.status, status, "{}", self.text());
        let receipt = self.receipt();
        assert_eq!((receipt.state.as_str(), receipt.attempt), (state, Some(attempt)), "the receipt of a run");
        assert!(!self.replayed(), "a run is no replay");
        assert!(self.whole, "a whole answer");
    }

    /// Asserts that this is the stored answer, byte for byte in all that is kept.
    #[track_caller]
    pub fn replays(&self, first: &Self) {
        assert_eq!(self.status, first.status, "{}", self.text());
        assert!(self.replayed(), "marked as a replay: {:?}", self.headers);
        for name in KEPT {
            assert_eq!(self.headers.bytes(name), first.headers.bytes(name), "{name} on a replay");
        }
        assert_eq!(self.body, first.body, "the body of a replay");
        assert!(self.whole, "a whole replay");
        assert_eq!(self.receipt(), first.receipt(), "the receipt of a replay");
        assert!(self.headers.bytes("set-cookie").is_empty(), "no cookie on a replay");
    }
}

/// What Stripe's SDKs are told, for the codes where the contract says it.
fn should_retry(code: &str) -> Option<&'static str> {
    match code {
        "operation_in_progress" | "operation_released" | "overloaded" | "store_unavailable" => Some("true"),
        "key_payload_mismatch" | "key_expired" | "outcome_uncertain" => Some("false"),
        _ => None,
    }
}
