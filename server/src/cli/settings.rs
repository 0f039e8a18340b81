//! What flags and environment variables set: durations and sizes with units, and the operations' defaults.

use std::borrow::Cow;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::HeaderName;
use samekey_core::{Keep, KeyRule, KeyTime, OutcomeClass, Policy, Recovery, Timeless};

use crate::layer::Limits;

/// A number without a unit, other than nought.
fn is_bare(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte != b'0')
}

/// `90s`, `5d`, `300ms`. A bare number is refused: nobody can see its unit.
pub(crate) mod moment {
    use std::time::{Duration, SystemTime};

    use samekey_core::Timestamp;

    /// As RFC 3339 writes it.
    pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
        let wrong = || format!("{text:?} is no moment; write for instance 2026-03-01T12:00:00Z, in UTC");
        let at = humantime::parse_rfc3339(text).map_err(|_| wrong())?;
        let since = at.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| wrong())?;
        i64::try_from(since.as_millis()).map(Timestamp::from_millis).map_err(|_| wrong())
    }

    pub(crate) fn shown(at: Timestamp) -> String {
        let since = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0));
        humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string()
    }
}

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

/// A whole number. The parser of the standard library says only that it is none.
pub(crate) fn count<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text} is no number in its range; write for instance 1000"))
}

/// A status of HTTP.
fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (100..1000).contains(status));
    status.ok_or_else(|| format!("{text} is no status; write for instance 404"))
}

/// A response header that may be stored.
fn stored_header(text: &str) -> Result<HeaderName, String> {
    let name: HeaderName =
        text.parse().map_err(|_| format!("{text:?} is no header name; write for instance x-total"))?;
    match name.as_str() {
        "set-cookie" | "authorization" | "www-authenticate" | "proxy-authenticate" => {
            Err(format!("{name} is never stored: whoever replays it would hand out somebody's session; leave it out"))
        }
        "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade" | "content-length" => {
            Err(format!("{name} belongs to one connection and is made anew; leave it out"))
        }
        _ => Ok(name),
    }
}

/// The header that carries the key.
fn key_header(text: &str) -> Result<HeaderName, String> {
    let name: HeaderName =
        text.parse().map_err(|_| format!("{text:?} is no header name; write for instance Idempotency-Key"))?;
    let taken = ["authorization", "cookie", "host", "content-length", "content-type", "x-request-id", "prefer"];
    if taken.contains(&name.as_str()) || name.as_str().starts_with("samekey-") {
        return Err(format!("{name} has a meaning of its own; write for instance Idempotency-Key"));
    }
    Ok(name)
}

/// `45s`, or counted from the timeout on: `timeout + 30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeAfter {
    Fixed(Duration),
    AfterTimeout(Duration),
}

impl std::str::FromStr for ProbeAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let relative = text.strip_prefix("timeout").and_then(|rest| rest.trim_start().strip_prefix('+'));
        match relative {
            Some(more) => duration(more.trim()).map(Self::AfterTimeout),
            None => duration(text).map(Self::Fixed).map_err(|error| format!("{error}, or `timeout + 30s`")),
        }
    }
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
    /// Keys mean nothing: every request passes
    Ignore,
}

/// What of an answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepRule {
    /// Status, headers and body
    Full,
    /// The status and the result's id; a retry hears `response_not_stored`
    Status,
}

/// How an uncertain outcome ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryRule {
    Manual,
    Probe,
    Rerun,
}

impl std::str::FromStr for RecoveryRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "manual" => Ok(Self::Manual),
            "rerun" => Ok(Self::Rerun),
            "probe" => Ok(Self::Probe),
            _ => Err(format!("{text} is no way to recover; write manual, probe or rerun")),
        }
    }
}

/// Whether a key's own time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyTimeRule {
    /// A UUIDv7 carries its time
    Carried,
    /// Keys are ids of entities: none has a time, whatever it looks like
    None,
}

/// What becomes of keys without a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimelessRule {
    /// Forgotten with all else, and then new again
    Forget,
    /// Remembered for ever, about 350 bytes each
    Keep,
}

/// What holds for every operation unless it says otherwise: `[defaults]` and `[[operation]]` of the file.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Every operation")]
pub(crate) struct Defaults {
    /// Whether requests need a key
    #[arg(long, env = "SAMEKEY_KEY", value_enum, default_value = "optional")]
    key: Key,

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
    /// ends
    #[arg(long, env = "SAMEKEY_PROBE_AFTER", value_name = "TIME", default_value = "timeout + 30s")]
    probe_after: ProbeAfter,

    /// How long a retry waits for the first delivery before it hears `operation_in_progress`
    #[arg(long, env = "SAMEKEY_DEFAULT_WAIT", value_name = "TIME", value_parser = duration, default_value = "5s")]
    default_wait: Duration,

    /// The longest that `Prefer: wait=N` may ask for; keep it below the limits of what stands in front
    #[arg(long, env = "SAMEKEY_MAX_WAIT", value_name = "TIME", value_parser = duration, default_value = "25s")]
    max_wait: Duration,

    /// How long after its head an answer is held before it is streamed and not stored
    #[arg(long, env = "SAMEKEY_HOLD", value_name = "TIME", value_parser = duration, default_value = "10s")]
    hold: Duration,

    /// After how long an uncertain outcome is given up as failed; it never runs again
    #[arg(long, env = "SAMEKEY_GIVE_UP", value_name = "TIME", value_parser = duration, default_value = "30d")]
    give_up: Duration,

    /// The largest request body with a key
    #[arg(long, env = "SAMEKEY_MAX_BODY", value_name = "SIZE", value_parser = size, default_value = "8MiB")]
    max_body: usize,

    /// The largest answer that is stored; a larger one passes, and its retry hears `response_not_stored`
    #[arg(long, env = "SAMEKEY_MAX_RESPONSE", value_name = "SIZE", value_parser = size, default_value = "1MiB")]
    max_response: usize,

    /// What of an answer is kept
    #[arg(long, env = "SAMEKEY_KEEP", value_enum, value_name = "WHAT", default_value = "full")]
    keep: KeepRule,

    /// Response headers kept beyond the usual ones, with commas between
    #[arg(long, env = "SAMEKEY_STORE_HEADERS", value_name = "HEADER", value_delimiter = ',', value_parser = stored_header)]
    store_headers: Vec<HeaderName>,

    /// Where the result's id stands in a JSON answer (RFC 6901); otherwise it is the last segment of `Location`
    #[arg(long, env = "SAMEKEY_RESULT_ID", value_name = "POINTER", value_parser = pointer)]
    result_id: Option<String>,

    /// How an uncertain outcome ends: by an operator (`manual`), by asking the service (`probe`, in an operation of the
    /// file), or by running again (`rerun`), which says that running twice does no harm
    #[arg(long, env = "SAMEKEY_RECOVERY", value_name = "HOW", default_value = "manual")]
    recovery: RecoveryRule,

    /// Whether a key's own time counts
    #[arg(long, env = "SAMEKEY_KEY_TIME", value_enum, value_name = "RULE", default_value = "carried")]
    key_time: KeyTimeRule,

    /// What becomes of keys that carry no time
    #[arg(long, env = "SAMEKEY_TIMELESS", value_enum, value_name = "RULE", default_value = "forget")]
    timeless: TimelessRule,

    /// The service does its work in one transaction: a 500 rolled it back, and the key may run again
    #[arg(long, env = "SAMEKEY_TRANSACTIONAL")]
    transactional: bool,

    /// Statuses that end the command, against the built-in table; with commas between
    #[arg(long, env = "SAMEKEY_TERMINAL", value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    terminal: Vec<u16>,

    /// Statuses after which nothing happened, so that the key may run again
    #[arg(long, env = "SAMEKEY_RELEASE", value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    release: Vec<u16>,

    /// Statuses after which nobody knows
    #[arg(long, env = "SAMEKEY_UNCERTAIN", value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    uncertain: Vec<u16>,

    /// The most keys of one actor in progress
    #[arg(long, env = "SAMEKEY_QUOTA", value_name = "COUNT", value_parser = count::<u32>, default_value = "1000")]
    quota: u32,
}

/// A pointer as RFC 6901 writes it.
fn pointer(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no pointer; a pointer starts with a slash, for instance /id"))
}

impl Defaults {
    /// The contract of an operation of this name.
    pub(crate) fn policy(&self, name: impl Into<Cow<'static, str>>, server: &ServerWide) -> Result<Policy, String> {
        let mut policy = Policy::new(name)
            .key(match self.key {
                Key::Optional => KeyRule::Optional,
                Key::Required => KeyRule::Required,
                Key::Ignore => KeyRule::Ignore,
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
            .keep(match self.keep {
                KeepRule::Full => Keep::Full,
                KeepRule::Status => Keep::Status,
            })
            .recovery(match self.recovery {
                RecoveryRule::Manual => Recovery::Manual,
                RecoveryRule::Probe => Recovery::Probe,
                RecoveryRule::Rerun => Recovery::Rerun,
            })
            .key_time(match self.key_time {
                KeyTimeRule::Carried => KeyTime::Carried,
                KeyTimeRule::None => KeyTime::None,
            })
            .timeless(match self.timeless {
                TimelessRule::Forget => Timeless::Forget,
                TimelessRule::Keep => Timeless::Keep,
            })
            .transactional(self.transactional)
            .quota(self.quota);
        policy.probe_after = Some(match self.probe_after {
            ProbeAfter::Fixed(time) => time,
            ProbeAfter::AfterTimeout(more) => self.timeout.saturating_add(more),
        });
        policy.give_up = self.give_up;
        policy.store_headers = self.store_headers.iter().map(|name| name.as_str().to_owned()).collect();
        policy.result_id.clone_from(&self.result_id);
        policy.classify = self.classify()?;
        policy.clock_skew = server.clock_skew;
        if server.profile == Profile::Ietf {
            policy.ietf = true;
            policy.default_wait = Duration::ZERO;
        }
        Ok(policy)
    }

    fn classify(&self) -> Result<Vec<(u16, OutcomeClass)>, String> {
        let mut all: Vec<(u16, OutcomeClass)> = Vec::new();
        for (name, statuses, class) in [
            ("terminal", &self.terminal, OutcomeClass::Terminal),
            ("release", &self.release, OutcomeClass::Released),
            ("uncertain", &self.uncertain, OutcomeClass::Uncertain),
        ] {
            for status in statuses {
                if all.iter().any(|(other, of)| other == status && *of != class) {
                    return Err(format!(
                        "{name}: {status} stands in another of terminal, release, uncertain; leave it in one"
                    ));
                }
                if name == "release" && (200..400).contains(status) {
                    return Err(format!("release: {status} says that it was done; a success cannot be released"));
                }
                all.push((*status, class));
            }
        }
        Ok(all)
    }
}

/// What holds for the whole server and enters every contract.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The contract of the server")]
pub(crate) struct ServerWide {
    /// Which contract's statuses and waiting apply
    #[arg(long, env = "SAMEKEY_PROFILE", value_enum, default_value = "default")]
    profile: Profile,

    /// The request header that carries the key
    #[arg(long, env = "SAMEKEY_KEY_HEADER", value_name = "HEADER", value_parser = key_header, default_value = "Idempotency-Key")]
    pub(crate) key_header: HeaderName,

    /// How far ahead of this server's clock the time in a UUIDv7 key may lie
    #[arg(long, env = "SAMEKEY_CLOCK_SKEW", value_name = "TIME", value_parser = duration, default_value = "5m")]
    clock_skew: Duration,
}

/// What the whole server holds at most.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits of the server")]
pub(crate) struct ServerLimits {
    /// All request bodies with a key held at once; beyond that 503 `overloaded`
    #[arg(long, env = "SAMEKEY_MAX_BUFFERED", value_name = "SIZE", value_parser = size, default_value = "256MiB")]
    pub(crate) max_buffered: usize,

    /// All requests that wait for another delivery; beyond that 409 at once
    #[arg(long, env = "SAMEKEY_MAX_WAITERS", value_name = "COUNT", value_parser = count::<usize>, default_value = "10000")]
    max_waiters: usize,

    /// Requests that wait for one key
    #[arg(long, env = "SAMEKEY_WAITERS_PER_KEY", value_name = "COUNT", value_parser = count::<usize>, default_value = "16")]
    waiters_per_key: usize,

    /// Free disk space below which nothing new is claimed
    #[arg(long, env = "SAMEKEY_MIN_FREE", value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    pub(crate) min_free: usize,

    /// Claims and completions that wait for the disk; from half of it on nothing new is claimed
    #[arg(long, env = "SAMEKEY_QUEUE", value_name = "COUNT", value_parser = count::<usize>, default_value = "4096")]
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
            ("timeout + 30".parse::<ProbeAfter>().unwrap_err(), "30s"),
            ("later".parse::<ProbeAfter>().unwrap_err(), "timeout + 30s"),
        ] {
            assert!(error.contains(hint), "{error}");
        }
    }
}
