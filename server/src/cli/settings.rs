//! What flags and environment variables set: durations and sizes with units, and the operations' defaults.

use std::time::Duration;

use clap::{Args, ValueEnum};
use samekey_core::{KeyRule, Policy};

use crate::layer::Limits;

/// A number without a unit, other than nought.
fn is_bare(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte != b'0')
}

/// `90s`, `5d`, `300ms`. A bare number is refused: nobody can see its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if is_bare(text) {
        return Err(format!("{text} has no unit; write for instance {text}s, {text}ms or {text}m"));
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; write for instance 30s, 500ms, 5d"))
}

/// `8MiB`, `512KiB`, `1000B`.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    if is_bare(text) {
        return Err(format!("{text} has no unit; write for instance {text}B, {text}KiB or {text}MiB"));
    }
    let size: bytesize::ByteSize = text.parse().map_err(|error| format!("{error}; write for instance 8MiB, 512KiB"))?;
    usize::try_from(size.as_u64()).map_err(|_| format!("{text} is more than this machine can address"))
}

/// Which contract's statuses and waiting apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// A mismatch is 409, a retry waits for the first delivery
    Default,
    /// As in the IETF draft: a mismatch is 422, a retry of a running command is refused at once
    Ietf,
}

/// Whether requests need a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Key {
    /// Requests without a key pass untouched
    Optional,
    /// Every POST and PATCH needs a key
    Required,
}

/// What holds for every operation unless it says otherwise.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Every operation")]
pub(crate) struct Defaults {
    /// Whether requests need a key
    #[arg(long, env = "SAMEKEY_KEY", value_enum, default_value = "optional")]
    key: Key,

    /// Which contract's statuses and waiting apply
    #[arg(long, env = "SAMEKEY_PROFILE", value_enum, default_value = "default")]
    profile: Profile,

    /// How long a client may go on retrying one intent; a long weekend offline fits
    #[arg(long, env = "SAMEKEY_RETRY_BUDGET", value_name = "TIME", value_parser = duration, default_value = "5d")]
    retry_budget: Duration,

    /// How long an answer is kept whole and replayed; must exceed retry-budget + timeout + probe-after + max-wait
    #[arg(long, env = "SAMEKEY_RETENTION", value_name = "TIME", value_parser = duration, default_value = "7d")]
    retention: Duration,

    /// How long after its end a key is remembered at all
    #[arg(long, env = "SAMEKEY_REMEMBER", value_name = "TIME", value_parser = duration, default_value = "30d")]
    remember: Duration,

    /// How long a claim stands without a heartbeat; after a crash, retries hear `operation_in_progress` this long
    #[arg(long, env = "SAMEKEY_LEASE", value_name = "TIME", value_parser = duration, default_value = "30s")]
    lease: Duration,

    /// How long the service may take for a whole answer; then 504, and the outcome is uncertain
    #[arg(long, env = "SAMEKEY_TIMEOUT", value_name = "TIME", value_parser = duration, default_value = "60s")]
    timeout: Duration,

    /// How long after that something may still be under way: a late answer is kept, the connection dropped before it
    /// ends [default: timeout + 30s]
    #[arg(long, env = "SAMEKEY_PROBE_AFTER", value_name = "TIME", value_parser = duration)]
    probe_after: Option<Duration>,

    /// How long a retry waits for the first delivery before it hears `operation_in_progress`
    #[arg(long, env = "SAMEKEY_DEFAULT_WAIT", value_name = "TIME", value_parser = duration, default_value = "5s")]
    default_wait: Duration,

    /// The longest that `Prefer: wait=N` may ask for; keep it below the limits of what stands in front
    #[arg(long, env = "SAMEKEY_MAX_WAIT", value_name = "TIME", value_parser = duration, default_value = "25s")]
    max_wait: Duration,

    /// How long after its head an answer is held before it is streamed and not stored
    #[arg(long, env = "SAMEKEY_HOLD", value_name = "TIME", value_parser = duration, default_value = "10s")]
    hold: Duration,

    /// The largest request body with a key
    #[arg(long, env = "SAMEKEY_MAX_BODY", value_name = "SIZE", value_parser = size, default_value = "8MiB")]
    max_body: usize,

    /// The largest answer that is stored; a larger one passes, and its retry hears `response_not_stored`
    #[arg(long, env = "SAMEKEY_MAX_RESPONSE", value_name = "SIZE", value_parser = size, default_value = "1MiB")]
    max_response: usize,

    /// Where the result's id stands in a JSON answer (RFC 6901); otherwise it is the last segment of `Location`
    #[arg(long, env = "SAMEKEY_RESULT_ID", value_name = "POINTER")]
    result_id: Option<String>,

    /// The most keys of one actor in progress
    #[arg(long, env = "SAMEKEY_QUOTA", value_name = "COUNT", default_value_t = 1000)]
    quota: u32,

    /// How far ahead of this server's clock the time in a UUIDv7 key may lie
    #[arg(long, env = "SAMEKEY_CLOCK_SKEW", value_name = "TIME", value_parser = duration, default_value = "5m")]
    clock_skew: Duration,
}

impl Defaults {
    pub(crate) fn policy(&self) -> Policy {
        let mut policy = Policy::new("automatic")
            .key(match self.key {
                Key::Optional => KeyRule::Optional,
                Key::Required => KeyRule::Required,
            })
            .retry_budget(self.retry_budget)
            .retention(self.retention)
            .remember(self.remember)
            .lease(self.lease)
            .timeout(self.timeout)
            .wait(self.default_wait, self.max_wait)
            .hold(self.hold)
            .max_body(self.max_body)
            .max_response(self.max_response)
            .quota(self.quota);
        policy.probe_after = self.probe_after;
        policy.result_id.clone_from(&self.result_id);
        policy.clock_skew = self.clock_skew;
        if self.profile == Profile::Ietf {
            policy.ietf = true;
            policy.default_wait = Duration::ZERO;
        }
        policy
    }
}

/// What the whole server holds at most.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits of the server")]
pub(crate) struct ServerLimits {
    /// All request bodies with a key held at once; beyond that 503 `overloaded`
    #[arg(long, env = "SAMEKEY_MAX_BUFFERED", value_name = "SIZE", value_parser = size, default_value = "256MiB")]
    max_buffered: usize,

    /// All requests that wait for another delivery; beyond that 409 at once
    #[arg(long, env = "SAMEKEY_MAX_WAITERS", value_name = "COUNT", default_value_t = 10_000)]
    max_waiters: usize,

    /// Requests that wait for one key
    #[arg(long, env = "SAMEKEY_WAITERS_PER_KEY", value_name = "COUNT", default_value_t = 16)]
    waiters_per_key: usize,

    /// Free disk space below which nothing new is claimed
    #[arg(long, env = "SAMEKEY_MIN_FREE", value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    pub(crate) min_free: usize,

    /// Claims and completions that wait for the disk; from half of it on nothing new is claimed
    #[arg(long, env = "SAMEKEY_QUEUE", value_name = "COUNT", default_value_t = 4096)]
    pub(crate) queue: usize,
}

impl ServerLimits {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_buffered_bytes: self.max_buffered,
            max_waiters: self.max_waiters,
            waiters_per_key: self.waiters_per_key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_need_their_unit() {
        assert_eq!(duration("5d"), Ok(Duration::from_secs(5 * 86_400)));
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(size("8MiB"), Ok(8 << 20));
        assert_eq!(size("10B"), Ok(10));
        for (error, hint) in [
            (duration("30").unwrap_err(), "30s"),
            (duration("soon").unwrap_err(), "30s"),
            (size("8").unwrap_err(), "8MiB"),
            (size("8 elephants").unwrap_err(), "8MiB"),
        ] {
            assert!(error.contains(hint), "{error}");
        }
    }
}
