//! `Samekey-State`: the decision on this request, on every answer of a covered route.
//!
//! An RFC 9651 item: a token with the parameters `effect` and `attempt`, `failed;effect=unknown;attempt=2`.
//! A client settles an intent by it, so it must never claim more than the record proves.

use core::fmt;

/// The token of the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// Ended with a 2xx or 3xx.
    Completed,
    /// Ended with a 4xx or 5xx.
    Failed,
    /// Nothing happened; the same key may run.
    Released,
    /// A delivery of this key is running.
    InProgress,
    /// The effect may or may not have happened.
    Uncertain,
    /// The key is older than the server's memory.
    Expired,
    /// This request was refused and will never run; says nothing of another request's state.
    Refused,
    /// The route is not covered.
    NotCovered,
    /// Nothing is recorded for this caller.
    None,
    /// The server cannot tell now.
    Unknown,
}

impl Word {
    /// Every word.
    pub const ALL: [Self; 10] = [
        Self::Completed,
        Self::Failed,
        Self::Released,
        Self::InProgress,
        Self::Uncertain,
        Self::Expired,
        Self::Refused,
        Self::NotCovered,
        Self::None,
        Self::Unknown,
    ];

    /// As the header spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Released => "released",
            Self::InProgress => "in_progress",
            Self::Uncertain => "uncertain",
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::NotCovered => "not_covered",
            Self::None => "none",
            Self::Unknown => "unknown",
        }
    }
}

/// The whole header value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The decision.
    pub word: Word,
    /// The ended command may have had an effect all the same: a stored 500, a panic, an outcome given up.
    pub effect_unknown: bool,
    /// The attempt that the decision speaks of, where there is a record.
    pub attempt: Option<u32>,
}

impl Receipt {
    /// A receipt without parameters.
    pub const fn of(word: Word) -> Self {
        Self { word, effect_unknown: false, attempt: None }
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word.as_str())?;
        if self.effect_unknown {
            f.write_str(";effect=unknown")?;
        }
        match self.attempt {
            Some(attempt) => write!(f, ";attempt={attempt}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn is_an_rfc_9651_item() {
        let receipt = Receipt { word: Word::Failed, effect_unknown: true, attempt: Some(2) };
        assert_eq!(receipt.to_string(), "failed;effect=unknown;attempt=2");
        assert_eq!(Receipt::of(Word::NotCovered).to_string(), "not_covered");
    }
}
