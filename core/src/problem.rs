//! Every refusal: its code, status, receipt, and what the caller does next. One table for server and client.
//!
//! The answers are RFC 9457 `application/problem+json`; clients switch on `code`, people read `detail`.

mod pages;

pub use pages::Page;

use crate::receipt::Word;

/// What a caller does next. Closed: an unknown word means [`Next::Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Wait and send the same key again.
    Wait,
    /// Send the same key again.
    RetrySameKey,
    /// Nothing will run; look at the status until somebody settles it.
    FollowStatus,
    /// It is done; do not send it again.
    Done,
    /// This key cannot carry this payload; a changed command is a new intent with a new key.
    NewIntent,
    /// Mend the request.
    FixRequest,
    /// Sign in, then send the same key.
    SignIn,
    /// Ask a person.
    Ask,
    /// Stop.
    Stop,
}

impl Next {
    /// As `next` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::RetrySameKey => "retry_same_key",
            Self::FollowStatus => "follow_status",
            Self::Done => "done",
            Self::NewIntent => "new_intent",
            Self::FixRequest => "fix_request",
            Self::SignIn => "sign_in",
            Self::Ask => "ask",
            Self::Stop => "stop",
        }
    }
}

/// What a code's row says.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As `code` spells it.
    pub name: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The receipt, unless the record tells it (`response_not_stored`) or the route has none (claim API).
    pub word: Option<Word>,
    /// The caller's next step.
    pub next: Next,
    /// `Stripe-Should-Retry`, which Stripe's SDKs obey over their own rule (409 and 5xx are sent again).
    pub stripe_should_retry: bool,
    /// One short sentence, the same for every occurrence (RFC 9457, `title`).
    pub title: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $name:literal, $status:literal, $word:expr, $next:ident, $stripe:literal, $title:literal;)+) => {
        /// The codes of all refusals.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $code,)+ }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            /// The code's row.
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$code => Row {
                        name: $name, status: $status, word: $word, next: Next::$next,
                        stripe_should_retry: $stripe, title: $title,
                    },)+
                }
            }
        }
    };
}

codes! {
    /// An earlier delivery of the key is running.
    OperationInProgress = "operation_in_progress", 409, Some(Word::InProgress), Wait, true,
        "An earlier delivery of this key is still running.";
    /// The effect may or may not have happened; nothing runs until that is settled.
    OutcomeUncertain = "outcome_uncertain", 409, Some(Word::Uncertain), FollowStatus, false,
        "It is not known whether this command took effect.";
    /// The key is bound to another payload. 422 under `profile = "ietf"`.
    KeyPayloadMismatch = "key_payload_mismatch", 409, Some(Word::Refused), NewIntent, false,
        "This key was used with another payload.";
    /// The key's time lies before what the server remembers.
    KeyExpired = "key_expired", 410, Some(Word::Expired), Ask, false,
        "This key is older than the server's memory.";
    /// The command is done; its response is not at hand.
    ResponseNotStored = "response_not_stored", 409, None, Done, false,
        "This command is done; its response is not kept.";
    /// The operation requires a key.
    KeyRequired = "idempotency_key_required", 400, Some(Word::Refused), FixRequest, false,
        "This operation requires an idempotency key.";
    /// The header holds no key.
    KeyInvalid = "idempotency_key_invalid", 400, Some(Word::Refused), FixRequest, false,
        "The idempotency key is malformed.";
    /// The body ends early or breaks its framing.
    BodyInvalid = "body_invalid", 400, Some(Word::Refused), FixRequest, false,
        "The request's body could not be read.";
    /// The body came too slowly. Nothing ran.
    BodyTimeout = "body_timeout", 408, Some(Word::None), RetrySameKey, true,
        "The request's body came too slowly.";
    /// Nothing happened a moment ago; not yet again.
    OperationReleased = "operation_released", 409, Some(Word::Released), RetrySameKey, true,
        "The command did not run; send the same key again later.";
    /// Its client closed the key: it did not and will not happen.
    KeyClosed = "key_closed", 409, Some(Word::Refused), NewIntent, false,
        "This key was closed: the command did not and will not run.";
    /// Nobody is signed in.
    ActorRequired = "actor_required", 401, Some(Word::None), SignIn, false,
        "Sign in: a key is kept for somebody.";
    /// The key is known under other credentials.
    ActorChanged = "actor_changed", 409, Some(Word::None), Ask, false,
        "This key is known under other credentials.";
    /// The body exceeds `max_body`.
    PayloadTooLarge = "payload_too_large", 413, Some(Word::Refused), FixRequest, false,
        "The request's body is too large.";
    /// Too many commands of the actor are in progress.
    QuotaExceeded = "quota_exceeded", 429, Some(Word::None), RetrySameKey, true,
        "Too many commands of this actor are in progress.";
    /// A queue, the disk or the memory for bodies is full. Nothing ran.
    Overloaded = "overloaded", 503, Some(Word::Unknown), RetrySameKey, true,
        "The server is overloaded; the command did not run now.";
    /// The store cannot answer. Nothing ran.
    StoreUnavailable = "store_unavailable", 503, Some(Word::Unknown), RetrySameKey, true,
        "The store cannot be reached; the command did not run now.";
    /// The proxy could not connect: nothing was sent.
    UpstreamUnreachable = "upstream_unreachable", 502, Some(Word::Released), RetrySameKey, true,
        "The service could not be reached; nothing was sent to it.";
    /// The service gave no whole answer in time.
    UpstreamTimeout = "upstream_timeout", 504, Some(Word::Uncertain), FollowStatus, false,
        "The service gave no whole answer in time.";
    /// Admin listener: the request cannot be understood.
    RequestInvalid = "request_invalid", 400, Some(Word::Refused), FixRequest, false,
        "The request cannot be understood.";
    /// Admin listener: the record is not as it was when somebody looked at it.
    RecordChanged = "record_changed", 409, None, Ask, false,
        "This record is not as it was when you looked at it.";
    /// Claim API: the claim is not held any more.
    ClaimStale = "claim_stale", 409, None, Stop, false,
        "This claim is not held any more.";
    /// Claim API: an effect of the claim is still open.
    EffectUnfinished = "effect_unfinished", 409, None, Stop, false,
        "An effect of this claim is still open.";
    /// Claim API: no such claim.
    ClaimNotFound = "claim_not_found", 404, None, Stop, false,
        "There is no such claim or record.";
    /// Claim API: the token's scopes do not allow it.
    Forbidden = "forbidden", 403, None, Stop, false,
        "This token does not allow that.";
}

impl Code {
    /// As `code` spells it.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The HTTP status; `ietf` gives a payload mismatch the 422 of the IETF draft.
    pub const fn status(self, ietf: bool) -> u16 {
        match self {
            Self::KeyPayloadMismatch if ietf => 422,
            code => code.row().status,
        }
    }

    /// The caller's next step.
    pub const fn next(self) -> Next {
        self.row().next
    }

    /// The code that a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_found_again() {
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.as_str()), Some(*code));
        }
        assert_eq!(Code::from_name("nonsense"), None);
    }

    #[test]
    fn receipts_follow_the_status() {
        for code in Code::ALL {
            let row = code.row();
            match row.status {
                400 | 413 => assert_eq!(row.word, Some(Word::Refused), "{}", row.name),
                401 | 408 | 429 => assert_eq!(row.word, Some(Word::None), "{}", row.name),
                503 => assert_eq!(row.word, Some(Word::Unknown), "{}", row.name),
                _ => {}
            }
            assert_eq!(row.word == Some(Word::Expired), *code == Code::KeyExpired);
        }
    }

    #[test]
    fn stripe_is_told_to_repeat_only_what_may_come_out_otherwise() {
        for code in Code::ALL {
            let row = code.row();
            assert_eq!(row.stripe_should_retry, matches!(row.next, Next::Wait | Next::RetrySameKey), "{}", row.name);
        }
    }
}
