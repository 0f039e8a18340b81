//! What holds but may surprise.

use std::time::Duration;

use samekey_core::select::Profile;
use samekey_core::{KeyRule, KeyTime, Policy, Recovery, Timeless};

use crate::cli::actor::ActorKind;
use crate::cli::config::Loaded;

/// What a remark asks of whoever reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something does not work as it is.
    Error,
    /// Something should be changed.
    Warning,
    /// A consequence to know.
    Note,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }

    const fn of(warns: bool) -> Self {
        if warns { Self::Warning } else { Self::Note }
    }
}

/// One thing to think about.
#[derive(Clone, Debug)]
pub(super) struct Remark {
    pub(super) kind: Kind,
    pub(super) operation: Option<String>,
    pub(super) text: String,
}

/// Request headers that change between deliveries: with one of them no retry is the same command.
const FRESH: &[&str] = &[
    "x-request-id",
    "x-correlation-id",
    "request-id",
    "traceparent",
    "tracestate",
    "baggage",
    "b3",
    "date",
    "age",
    "via",
    "forwarded",
    "x-forwarded-for",
    "content-length",
    "authorization",
    "cookie",
    "prefer",
];

/// Words of paths whose answers usually set a cookie.
const LOGINS: &[&str] = &["login", "signin", "sign-in", "session", "sessions", "token", "auth", "oauth"];

/// Services close idle connections after 5 s (Node) or more; what goes out later may meet a closing one.
const COMMON_KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The shortest limit of common ingresses.
const COMMON_INGRESS_LIMIT: Duration = Duration::from_secs(30);

pub(super) fn remarks(loaded: &Loaded) -> Vec<Remark> {
    let mut all = Vec::new();
    for operation in &loaded.operations {
        let policy = &operation.policy;
        let mut add = |warns: bool, text: String| {
            all.push(Remark { kind: Kind::of(warns), operation: Some(policy.operation.to_string()), text });
        };
        if policy.key == KeyRule::Optional && operation.at.is_some() {
            add(true, "the key is optional: a request without one runs each time; set key = \"required\" when all clients send it".into());
        }
        if policy.key == KeyRule::Ignore {
            add(false, "keys are ignored: every request runs".into());
        }
        let path = operation.at.as_ref().map_or("", |(_, path)| path);
        if path.to_ascii_lowercase().split('/').any(|segment| LOGINS.contains(&segment)) {
            add(true, format!("{path} looks like a login: Set-Cookie is never stored, so a replay does not sign in"));
        }
        for header in significant_headers(policy) {
            if FRESH.contains(&header.as_str()) || header.starts_with("x-b3-") || header.starts_with("samekey-") {
                add(
                    true,
                    format!(
                        "significant.headers has {header}, which changes between deliveries: retries would be key_payload_mismatch; take it out"
                    ),
                );
            }
        }
        contract(policy, &mut add);
    }
    let mut add = |warns: bool, text: String| all.push(Remark { kind: Kind::of(warns), operation: None, text });
    if loaded.operations.is_empty() {
        contract(&loaded.others, &mut add);
    }
    server(loaded, &mut add);
    all
}

/// Of one contract, wherever it comes from.
fn contract(policy: &Policy, add: &mut impl FnMut(bool, String)) {
    let shown = humantime::format_duration;
    match (policy.key_time, policy.timeless) {
        (KeyTime::None, Timeless::Forget) => add(
            true,
            format!(
                "no key has a time (key_time = \"none\"): {} after its end a key is new again and runs; timeless = \"keep\" remembers it for about 350 bytes each",
                shown(policy.remember)
            ),
        ),
        (KeyTime::Carried, Timeless::Forget) => add(
            false,
            format!(
                "keys without a time of their own (UUIDv4, order numbers) are new again {} after their end; UUIDv7 keys are refused then",
                shown(policy.remember)
            ),
        ),
        (_, Timeless::Keep) => {
            add(
                false,
                "keys without a time are remembered for ever, about 350 bytes each: a million of them are 350 MB"
                    .into(),
            );
        }
    }
    if policy.recovery == Recovery::Rerun {
        add(
            true,
            "recovery = \"rerun\": what is uncertain runs again by itself; only right where running twice does no harm"
                .into(),
        );
    }
    if policy.probe_after() < policy.timeout {
        add(
            true,
            format!(
                "probe_after ({}) is shorter than timeout ({}): the service may still be at work when a person settles the outcome",
                shown(policy.probe_after()),
                shown(policy.timeout)
            ),
        );
    }
    if policy.max_wait > COMMON_INGRESS_LIMIT {
        add(
            true,
            format!(
                "max_wait ({}) is longer than many ingresses wait ({}): clients would see their 504",
                shown(policy.max_wait),
                shown(COMMON_INGRESS_LIMIT)
            ),
        );
    }
    let sum = policy.retry_budget + policy.timeout + policy.probe_after() + policy.max_wait;
    if policy.retention < sum + sum / 10 {
        add(
            false,
            format!(
                "retention ({}) is barely longer than retry_budget + timeout + probe_after + max_wait ({})",
                shown(policy.retention),
                shown(sum)
            ),
        );
    }
}

/// Of the whole server.
fn server(loaded: &Loaded, add: &mut impl FnMut(bool, String)) {
    let shown = humantime::format_duration;
    let args = &loaded.args;
    if args.upstream.is_none() {
        add(true, "nothing says where the service is: serve needs upstream".into());
    }
    match args.actor.actor {
        ActorKind::Credentials => add(
            false,
            "actor from credentials: after a token was refreshed, keys of the old one are refused as actor_changed; \
             jwt:CLAIM, whoami: and header: name who stays the same"
                .into(),
        ),
        ActorKind::Constant(_) => {
            add(true, "actor from constant: whoever knows a key hears its answer, and all share one quota".into());
        }
        ActorKind::Jwt(_) | ActorKind::Whoami { .. } | ActorKind::Header(_) => {}
    }
    if args.upstream_idle >= COMMON_KEEP_ALIVE {
        add(
            true,
            format!(
                "upstream_idle ({}) is not below the {} after which many services close idle connections: outcomes become uncertain",
                shown(args.upstream_idle),
                shown(COMMON_KEEP_ALIVE)
            ),
        );
    }
    let longest =
        loaded.operations.iter().map(|operation| operation.policy.timeout).chain([loaded.others.timeout]).max();
    if longest.is_some_and(|timeout| args.drain < timeout) {
        add(
            true,
            format!(
                "drain ({}) is shorter than the longest timeout ({}): a shutdown makes running commands uncertain",
                shown(args.drain),
                shown(longest.unwrap_or_default())
            ),
        );
    }
    let largest = loaded
        .operations
        .iter()
        .map(|operation| operation.policy.max_body_bytes)
        .chain([loaded.others.max_body_bytes])
        .max();
    if largest.is_some_and(|body| body > args.limits.max_buffered) {
        add(true, "max_body is larger than max_buffered: such a body never fits and always hears 503".into());
    }
    if loaded.others.key == KeyRule::Required {
        add(false, "[defaults] key = \"required\" holds for requests outside the operations, too: every POST and PATCH needs a key".into());
    }
    add(false, "Set-Cookie is never stored: a replay does not repeat it".into());
}

fn significant_headers(policy: &Policy) -> Vec<String> {
    Profile::new(None, policy.significant.clone()).map(|profile| profile.headers().to_vec()).unwrap_or_default()
}
