//! `Samekey-State`: an RFC 9651 item, read strictly.

/// The decision on one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// `completed`, `refused`, …
    pub state: String,
    /// Which claim of the record.
    pub attempt: Option<u32>,
    /// `unknown` where the effect may or may not have happened.
    pub effect: Option<String>,
}

const STATES: [&str; 10] = [
    "completed",
    "failed",
    "released",
    "in_progress",
    "uncertain",
    "expired",
    "refused",
    "not_covered",
    "none",
    "unknown",
];

impl Receipt {
    /// Panics on everything the contract does not say.
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split(';');
        let state = parts.next().expect("a first part").to_owned();
        assert!(STATES.contains(&state.as_str()), "a state of the contract: {text}");
        let mut receipt = Self { state, attempt: None, effect: None };
        for parameter in parts {
            let (name, value) = parameter.trim_start_matches(' ').split_once('=').expect("name=value");
            match name {
                "attempt" => {
                    let attempt = value.parse().expect("an integer");
                    assert!(attempt > 0 && receipt.attempt.replace(attempt).is_none(), "one attempt from 1 on: {text}");
                }
                "effect" => {
                    assert!(["no", "yes", "unknown"].contains(&value), "a token: {text}");
                    assert!(receipt.effect.replace(value.to_owned()).is_none(), "one effect: {text}");
                }
                _ => panic!("no other parameter: {text}"),
            }
        }
        let with_record = ["completed", "failed", "released", "in_progress", "uncertain"];
        let known = with_record.contains(&receipt.state.as_str());
        assert!(known || receipt.attempt.is_none(), "no attempt without a record: {text}");
        receipt
    }
}
