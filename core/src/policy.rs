//! An operation's contract as plain data: the struct that builders and configuration fill.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::select::{SelectError, Significant};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
const fn days(days: u64) -> Duration {
    secs(days * 86_400)
}

/// Whether requests of an operation need a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// A request without a key is `400`.
    Required,
    /// A request without a key passes untouched.
    Optional,
    /// Keys mean nothing here (browsers may send keys of their own accord).
    Ignore,
}

/// Whether a key's own time is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyTime {
    /// A UUIDv7 carries its time.
    Carried,
    /// Keys are entity ids: no key has a time, whatever it looks like.
    None,
}

/// What becomes of the tombstones of keys without a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeless {
    /// Forgotten after `remember`: then the key is new again.
    Forget,
    /// Kept for ever, about 350 bytes each.
    Keep,
}

/// What of an answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Status, headers and body.
    Full,
    /// The status and the result id; a retry hears `response_not_stored`.
    Status,
}

/// How an uncertain outcome ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// By an operator: the only way that cannot double.
    Manual,
    /// By asking the external system.
    Probe,
    /// By running again, because the operator declared the effect repeatable.
    Rerun,
}

/// What an answer's status means for the record, where an operation overrides the built-in table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeClass {
    /// The answer ends the intent.
    Terminal,
    /// Nothing happened.
    Released,
    /// Nobody knows.
    Uncertain,
}

/// An operation's contract. The fields are documented by their builders and defaults in [`Policy::new`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The operation's stable name.
    pub operation: Cow<'static, str>,
    /// Former names, looked up together with the name.
    pub aliases: Vec<String>,
    /// Whether requests need a key.
    pub key: KeyRule,
    /// Whether a key's own time is believed.
    pub key_time: KeyTime,
    /// What becomes of tombstones of keys without a time.
    pub timeless: Timeless,
    /// Requests without an actor are allowed; the key is then the secret.
    pub anonymous: bool,
    /// What of the payload counts.
    pub significant: Significant,
    /// How long a client may go on retrying.
    pub retry_budget: Duration,
    /// How long a response is kept whole.
    pub retention: Duration,
    /// How long after its end a record is remembered at all.
    pub remember: Duration,
    /// How long a claim stands without a heartbeat.
    pub lease: Duration,
    /// How long a claim is renewed.
    pub timeout: Duration,
    /// How long after the outcome became uncertain something may still be under way; `None`: timeout + 30 s.
    pub probe_after: Option<Duration>,
    /// How long a retry waits for the first delivery.
    pub default_wait: Duration,
    /// The longest that `Prefer: wait` may ask for.
    pub max_wait: Duration,
    /// How long after its head an answer is held before it is streamed and not stored.
    pub hold: Duration,
    /// After how long an uncertain record is given up.
    pub give_up: Duration,
    /// The largest request body, in bytes.
    pub max_body_bytes: usize,
    /// The largest answer that is stored, in bytes.
    pub max_response_bytes: usize,
    /// What of an answer is kept.
    pub keep: Keep,
    /// Response headers kept beyond the allow-list, in lower case.
    pub store_headers: Vec<String>,
    /// Where the result's id stands in a JSON answer (RFC 6901); otherwise the last segment of `Location`.
    pub result_id: Option<String>,
    /// How an uncertain outcome ends.
    pub recovery: Recovery,
    /// Every external effect goes through the journal, so a claim lapsed before the first one is released.
    pub journaled: bool,
    /// The handler's only effect is one transaction: a 500 or a panic rolled it back.
    pub transactional: bool,
    /// The most keys of one actor in progress.
    pub quota: u32,
    /// How far ahead of the store's clock a key's time may lie.
    pub clock_skew: Duration,
    /// Statuses whose meaning differs from the built-in table.
    pub classify: Vec<(u16, OutcomeClass)>,
    /// The answers follow the IETF draft where it differs: 422 for a mismatch, no waiting.
    pub ietf: bool,
}

/// Why a policy cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// `retry_budget + timeout + probe_after + max_wait < retention` does not hold: a client could come back
    /// for an answer that is gone.
    RetentionTooShort {
        /// The sum on the left.
        needed: Duration,
        /// The retention.
        retention: Duration,
    },
    /// `retention ≤ remember` does not hold.
    RememberTooShort {
        /// The retention.
        retention: Duration,
        /// The memory.
        remember: Duration,
    },
    /// A duration or size that must not be zero is.
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A significant field cannot be used.
    Significant(SelectError),
    /// `default_wait ≤ max_wait` does not hold.
    WaitTooLong {
        /// The default.
        default_wait: Duration,
        /// The longest.
        max_wait: Duration,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RetentionTooShort { needed, retention } => write!(
                f,
                "retention ({retention:?}) must be longer than retry_budget + timeout + probe_after + max_wait ({needed:?}), \
                 or a client that still retries finds its answer gone; raise retention or lower retry_budget"
            ),
            Self::RememberTooShort { retention, remember } => {
                write!(f, "remember ({remember:?}) must be at least retention ({retention:?}); raise remember")
            }
            Self::Significant(error) => write!(f, "significant: {error}"),
            Self::Zero { setting } => write!(f, "{setting} must be greater than zero"),
            Self::WaitTooLong { default_wait, max_wait } => {
                write!(f, "default_wait ({default_wait:?}) must not exceed max_wait ({max_wait:?})")
            }
        }
    }
}

impl core::error::Error for PolicyError {}

impl Policy {
    /// The defaults of DESIGN section 8 under this name. A weekend offline fits the retry budget.
    pub fn new(operation: impl Into<Cow<'static, str>>) -> Self {
        Self {
            operation: operation.into(),
            aliases: Vec::new(),
            key: KeyRule::Optional,
            key_time: KeyTime::Carried,
            timeless: Timeless::Forget,
            anonymous: false,
            significant: Significant::default(),
            retry_budget: days(5),
            retention: days(7),
            remember: days(30),
            lease: secs(30),
            timeout: secs(60),
            probe_after: None,
            default_wait: secs(5),
            max_wait: secs(25),
            hold: secs(10),
            give_up: days(30),
            max_body_bytes: 8 << 20,
            max_response_bytes: 1 << 20,
            keep: Keep::Full,
            store_headers: Vec::new(),
            result_id: None,
            recovery: Recovery::Manual,
            journaled: false,
            transactional: false,
            quota: 1000,
            clock_skew: secs(300),
            classify: Vec::new(),
            ietf: false,
        }
    }

    /// How long after the outcome became uncertain something may still be under way.
    pub fn probe_after(&self) -> Duration {
        self.probe_after.unwrap_or(self.timeout.saturating_add(secs(30)))
    }

    /// Checks that the durations fit together.
    pub fn check(&self) -> Result<(), PolicyError> {
        for (setting, zero) in [
            ("lease", self.lease < Duration::from_millis(1)),
            ("timeout", self.timeout < Duration::from_millis(1)),
            ("probe_after", self.probe_after() < Duration::from_millis(1)),
            ("quota", self.quota == 0),
        ] {
            if zero {
                return Err(PolicyError::Zero { setting });
            }
        }
        self.significant.check().map_err(PolicyError::Significant)?;
        if self.default_wait > self.max_wait {
            return Err(PolicyError::WaitTooLong { default_wait: self.default_wait, max_wait: self.max_wait });
        }
        let needed = [self.timeout, self.probe_after(), self.max_wait]
            .into_iter()
            .fold(self.retry_budget, Duration::saturating_add);
        if needed >= self.retention {
            return Err(PolicyError::RetentionTooShort { needed, retention: self.retention });
        }
        if self.retention > self.remember {
            return Err(PolicyError::RememberTooShort { retention: self.retention, remember: self.remember });
        }
        Ok(())
    }
}

/// One builder per setting: the field of the same name.
macro_rules! builders {
    ($($(#[$doc:meta])* $name:ident: $kind:ty;)+) => {
        impl Policy {
            $($(#[$doc])* #[must_use] pub fn $name(mut self, $name: $kind) -> Self { self.$name = $name; self })+
        }
    };
}

builders! {
    /// Sets whether requests need a key.
    key: KeyRule;
    /// Sets whether a key's own time is believed.
    key_time: KeyTime;
    /// Sets what becomes of tombstones of keys without a time.
    timeless: Timeless;
    /// Allows requests without an actor.
    anonymous: bool;
    /// Sets what of the payload counts.
    significant: Significant;
    /// Sets how long a client may go on retrying.
    retry_budget: Duration;
    /// Sets how long a response is kept whole.
    retention: Duration;
    /// Sets how long after its end a record is remembered at all.
    remember: Duration;
    /// Sets how long a claim stands without a heartbeat.
    lease: Duration;
    /// Sets how long a claim is renewed; `probe_after` follows unless it was set.
    timeout: Duration;
    /// Sets how long after its head an answer is held before it is streamed and not stored.
    hold: Duration;
    /// Sets what of an answer is kept.
    keep: Keep;
    /// Sets how an uncertain outcome ends.
    recovery: Recovery;
    /// Promises that every external effect goes through the journal.
    journaled: bool;
    /// Promises that a 500 or a panic rolled everything back.
    transactional: bool;
    /// Sets the most keys of one actor in progress.
    quota: u32;
    /// Sets after how long an uncertain record is given up.
    give_up: Duration;
    /// Sets how far ahead of the store's clock a key's time may lie.
    clock_skew: Duration;
    /// Lets the answers follow the IETF draft where it differs.
    ietf: bool;
}

impl Policy {
    /// Adds a former name.
    #[must_use]
    pub fn alias(mut self, former: impl Into<String>) -> Self {
        self.aliases.push(former.into());
        self
    }

    /// Sets how long after the outcome became uncertain something may still be under way.
    #[must_use]
    pub fn probe_after_uncertain(mut self, probe_after: Duration) -> Self {
        self.probe_after = Some(probe_after);
        self
    }

    /// Sets how long a retry waits for the first delivery, and the longest it may ask for.
    #[must_use]
    pub fn wait(mut self, default: Duration, max: Duration) -> Self {
        self.default_wait = default;
        self.max_wait = max;
        self
    }

    /// Sets the largest request body.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the largest answer that is stored.
    #[must_use]
    pub fn max_response(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets where the result's id stands in a JSON answer.
    #[must_use]
    pub fn result_id(mut self, pointer: impl Into<String>) -> Self {
        self.result_id = Some(pointer.into());
        self
    }

    /// Keeps these response headers beyond the allow-list.
    #[must_use]
    pub fn store_headers<I: IntoIterator<Item: Into<String>>>(mut self, names: I) -> Self {
        self.store_headers = names.into_iter().map(|name| name.into().to_ascii_lowercase()).collect();
        self
    }

    /// Gives one status another meaning than the built-in table.
    #[must_use]
    pub fn classify(mut self, status: u16, class: OutcomeClass) -> Self {
        self.classify.push((status, class));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_together() {
        Policy::new("orders.create").check().unwrap();
    }

    #[test]
    fn a_client_must_find_its_answer_while_it_retries() {
        let policy = Policy::new("a").retention(days(5));
        assert!(matches!(policy.check(), Err(PolicyError::RetentionTooShort { .. })));
        let policy = Policy::new("a").remember(days(6));
        assert!(matches!(policy.check(), Err(PolicyError::RememberTooShort { .. })));
        let policy = Policy::new("a").lease(Duration::ZERO);
        assert_eq!(policy.check(), Err(PolicyError::Zero { setting: "lease" }));
        let policy = Policy::new("a").wait(secs(9), secs(8));
        assert!(matches!(policy.check(), Err(PolicyError::WaitTooLong { .. })));
    }
}
