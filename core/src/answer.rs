//! What an answer of the handler means for the record.
//!
//! | answer | record | effect |
//! |---|---|---|
//! | 2xx, 3xx | completed | yes |
//! | 401 403 407 | released | no |
//! | 423 425 429, and 503 with `Retry-After` | released, not before the moment it names | no |
//! | 408, 499, 502, 503 without `Retry-After`, 504, 520–527, 598 and above, and 1xx | uncertain | unknown |
//! | every other 4xx, 409 among them | failed | no |
//! | every other 5xx | failed | unknown |
//!
//! 408 stands among the uncertain ones because timeout layers send it after dropping a running handler; 503
//! without `Retry-After`, 502 and 504 because load balancers send them after they passed the request on.

use core::time::Duration;

use crate::policy::{OutcomeClass, Policy};

/// The row of the table that an answer meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// 2xx or 3xx.
    Completed,
    /// A terminal refusal or failure.
    Failed {
        /// The effect may have happened all the same.
        effect_unknown: bool,
    },
    /// Nothing happened; not again before this much time passed.
    Released {
        /// What `Retry-After` asked for, capped by the operation's retry budget.
        not_before: Option<Duration>,
    },
    /// Nobody knows.
    Uncertain,
}

/// The head of an answer, as far as it has a meaning.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// A valid `Retry-After`, as time from now.
    pub retry_after: Option<Duration>,
    /// What the handler said by `Samekey-Outcome`.
    pub said: Option<OutcomeClass>,
}

/// What `Samekey-Outcome` spells.
pub fn said(value: &[u8]) -> Option<OutcomeClass> {
    match value {
        b"terminal" => Some(OutcomeClass::Terminal),
        b"released" => Some(OutcomeClass::Released),
        b"uncertain" => Some(OutcomeClass::Uncertain),
        _ => None,
    }
}

/// The meaning of an answer under an operation's policy.
pub fn meaning(head: Head, policy: &Policy) -> Meaning {
    let Head { status, retry_after, said } = head;
    let configured = || policy.classify.iter().rev().find(|(of, _)| *of == status).map(|(_, class)| *class);
    match said.or_else(configured).or_else(|| built_in(status, retry_after.is_some(), policy.transactional)) {
        // Whoever says that a success did nothing contradicts himself.
        Some(OutcomeClass::Released) if (200..400).contains(&status) => Meaning::Uncertain,
        Some(OutcomeClass::Released) => {
            Meaning::Released { not_before: retry_after.map(|after| after.min(policy.retry_budget)) }
        }
        Some(OutcomeClass::Uncertain) => Meaning::Uncertain,
        Some(OutcomeClass::Terminal) | None => match status {
            200..400 => Meaning::Completed,
            _ => Meaning::Failed { effect_unknown: !(400..500).contains(&status) },
        },
    }
}

/// What a panic of the handler means.
pub fn panicked(policy: &Policy) -> Meaning {
    if policy.transactional { Meaning::Released { not_before: None } } else { Meaning::Failed { effect_unknown: true } }
}

/// The rows that are not terminal.
fn built_in(status: u16, retry_after: bool, transactional: bool) -> Option<OutcomeClass> {
    match status {
        401 | 403 | 407 | 423 | 425 | 429 => Some(OutcomeClass::Released),
        503 if retry_after => Some(OutcomeClass::Released),
        500 if transactional => Some(OutcomeClass::Released),
        0..200 | 408 | 499 | 502..=504 | 520..=527 | 598.. => Some(OutcomeClass::Uncertain),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn of(status: u16, retry_after: Option<u64>, said: Option<OutcomeClass>) -> Meaning {
        meaning(Head { status, retry_after: retry_after.map(Duration::from_secs), said }, &Policy::new("orders.create"))
    }

    #[test]
    fn every_status_meets_its_row() {
        let released = Meaning::Released { not_before: None };
        for status in 0..1000 {
            let expected = match status {
                200..=399 => Meaning::Completed,
                401 | 403 | 407 | 423 | 425 | 429 => released,
                0..=199 | 408 | 499 | 502 | 503 | 504 | 520..=527 | 598.. => Meaning::Uncertain,
                400..=498 => Meaning::Failed { effect_unknown: false },
                500..=597 => Meaning::Failed { effect_unknown: true },
            };
            assert_eq!(of(status, None, None), expected, "{status}");
        }
    }

    #[test]
    fn retry_after_makes_a_503_a_release_and_is_capped() {
        assert_eq!(of(503, Some(7), None), Meaning::Released { not_before: Some(Duration::from_secs(7)) });
        let capped = Some(Policy::new("a").retry_budget);
        assert_eq!(of(429, Some(u64::MAX), None), Meaning::Released { not_before: capped });
        assert_eq!(of(502, Some(7), None), Meaning::Uncertain);
    }

    #[test]
    fn the_handler_may_say_otherwise() {
        use OutcomeClass::{Released, Terminal, Uncertain};
        assert_eq!(of(503, None, Some(Terminal)), Meaning::Failed { effect_unknown: true });
        assert_eq!(of(404, None, Some(Released)), Meaning::Released { not_before: None });
        assert_eq!(of(200, None, Some(Uncertain)), Meaning::Uncertain);
        assert_eq!(of(201, None, Some(Released)), Meaning::Uncertain, "a success that did nothing");
        let words: Vec<_> =
            ["terminal", "released", "uncertain", "Released", ""].iter().map(|w| said(w.as_bytes())).collect();
        assert_eq!(words, [Some(Terminal), Some(Released), Some(Uncertain), None, None]);
    }

    #[test]
    fn an_operation_may_classify_otherwise_but_the_handler_has_the_last_word() {
        let policy = Policy::new("a").classify(409, OutcomeClass::Released);
        let head = Head { status: 409, retry_after: None, said: None };
        assert_eq!(meaning(head, &policy), Meaning::Released { not_before: None });
        let head = Head { said: Some(OutcomeClass::Terminal), ..head };
        assert_eq!(meaning(head, &policy), Meaning::Failed { effect_unknown: false });
    }

    #[test]
    fn a_transactional_handler_rolled_back() {
        let policy = Policy::new("a").transactional(true);
        let head = Head { status: 500, retry_after: None, said: None };
        assert_eq!(meaning(head, &policy), Meaning::Released { not_before: None });
        assert_eq!(panicked(&policy), Meaning::Released { not_before: None });
        assert_eq!(panicked(&Policy::new("a")), Meaning::Failed { effect_unknown: true });
    }
}
