//! Tests of the table in [`super`], in three ways that do not lean on each other:
//!
//! * `deliveries`, `holders`, `effects`, `settlers`: one example a row, each guard from both sides, every field looked at;
//! * `table`, `every`: the table once more, as data over plain facts, against the product of all records and events;
//! * `world`, `search`: clients, handlers, crashes and operators around one key, searched for a broken promise.

mod deliveries;
mod effects;
mod every;
mod holders;
mod search;
mod settlers;
mod table;
mod world;

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::*;
use crate::fingerprint::Fingerprint;
use crate::policy::Recovery;
use crate::problem::Code;

/// One of many payloads, taken under one of many profiles.
fn fingerprint(profile: u32, payload: char) -> Fingerprint {
    let digest: String = core::iter::repeat_n(payload, 64).collect();
    Fingerprint::parse(&format!("fp1:json:{profile:08x}:{digest}")).unwrap()
}

fn bound() -> Fingerprint {
    fingerprint(1, 'a')
}
fn another_payload() -> Fingerprint {
    fingerprint(1, 'b')
}
fn another_profile() -> Fingerprint {
    fingerprint(2, 'a')
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The moment at which every record below is looked at.
const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// Round numbers, all different, so that no setting can stand for another.
const LEASE: Duration = ms(30);
const TIMEOUT: Duration = ms(70);
const PROBE_AFTER: Duration = ms(110);
const RETENTION: Duration = ms(1_300);
const REMEMBER: Duration = ms(3_100);
const GIVE_UP: Duration = ms(1_900);
const RETRY_BUDGET: Duration = ms(500);
const CLOCK_SKEW: Duration = ms(3);
const TICK: Duration = ms(1);

fn policy() -> Policy {
    let mut policy = Policy::new("orders.create")
        .lease(LEASE)
        .timeout(TIMEOUT)
        .probe_after_uncertain(PROBE_AFTER)
        .retention(RETENTION)
        .remember(REMEMBER)
        .retry_budget(RETRY_BUDGET)
        .wait(ms(5), ms(25));
    policy.give_up = GIVE_UP;
    policy.clock_skew = CLOCK_SKEW;
    policy
}

fn context(policy: &Policy) -> Context<'_> {
    Context { now: NOW, policy, may_judge: true, new_holder: NEW }
}

fn context_at(now: Timestamp, policy: &Policy) -> Context<'_> {
    Context { now, ..context(policy) }
}

/// Who holds the claims below, who asks for the next one, and the nonce for rows that make a new holder.
const HOLDER: Holder = Holder::from_bytes([1; 16]);
const ASKER: Holder = Holder::from_bytes([2; 16]);
const NEW: Holder = Holder::from_bytes([3; 16]);
const MINE: Fence = Fence { attempt: 3, holder: HOLDER };
const NOT_MINE: [Fence; 3] =
    [Fence { attempt: 2, holder: HOLDER }, Fence { attempt: 4, holder: HOLDER }, Fence { attempt: 3, holder: ASKER }];

const OPEN: Effects = Effects { open: 1, finished: 0, not_applied: 0 };
const FINISHED: Effects = Effects { open: 0, finished: 1, not_applied: 0 };
const NOT_APPLIED: Effects = Effects { open: 0, finished: 0, not_applied: 1 };
const NO_EFFECTS: Effects = Effects { open: 0, finished: 0, not_applied: 0 };

/// The third claim of a key, its lease good for 10 ms more and its deadline 40 ms away.
fn in_progress() -> Record {
    Record {
        fingerprint: Some(bound()),
        state: State::InProgress,
        fence: MINE,
        took_over: false,
        revision: 7,
        lease_until: NOW + ms(10),
        deadline: NOW + ms(40),
        settle_after: None,
        not_before: None,
        reason: None,
        ended: None,
        status_code: None,
        result_id: None,
        has_response: false,
        created_at: NOW - ms(200),
        finished_at: None,
        expires_at: None,
        effects: NO_EFFECTS,
    }
}

/// Its claim is over: the moments of the claim lie behind.
fn past_claim() -> Record {
    Record { lease_until: NOW - ms(100), deadline: NOW - ms(80), ..in_progress() }
}

/// Lapsed ten milliseconds ago.
fn lapsed_claim() -> Record {
    Record { lease_until: NOW - ms(10), deadline: NOW + ms(40), ..in_progress() }
}

fn uncertain() -> Record {
    let settle_after = Some(NOW - ms(20));
    Record { state: State::Uncertain, reason: Some(Reason::Lapse), settle_after, ..past_claim() }
}

fn released() -> Record {
    Record { state: State::Released, finished_at: Some(NOW - ms(50)), ..past_claim() }
}

fn completed() -> Record {
    Record {
        state: State::Completed,
        status_code: Some(201),
        result_id: Some("order-17".to_string()),
        has_response: true,
        finished_at: Some(NOW - ms(50)),
        expires_at: Some(NOW - ms(50) + RETENTION),
        ..past_claim()
    }
}

/// Failed by a 500, so that its effect is unknown.
fn failed() -> Record {
    Record {
        state: State::Failed,
        status_code: Some(500),
        result_id: None,
        reason: Some(Reason::ServerError),
        ..completed()
    }
}

/// A tombstone, as the sweeper leaves it.
fn expired(how: Ended) -> Record {
    let finished_at = NOW - RETENTION - ms(9);
    let of = match how {
        Ended::Completed => completed(),
        Ended::Failed => failed(),
        Ended::Closed => {
            return Record {
                fingerprint: None,
                state: State::Expired,
                ended: Some(how),
                finished_at: Some(finished_at),
                ..past_claim()
            };
        }
    };
    Record {
        state: State::Expired,
        ended: Some(how),
        has_response: false,
        finished_at: Some(finished_at),
        expires_at: Some(finished_at + RETENTION),
        ..of
    }
}

fn every_state() -> [Record; 8] {
    [
        in_progress(),
        uncertain(),
        released(),
        completed(),
        failed(),
        expired(Ended::Completed),
        expired(Ended::Failed),
        expired(Ended::Closed),
    ]
}

/// The records of all other states.
fn all_but(states: &[State]) -> impl Iterator<Item = Record> {
    every_state().into_iter().filter(move |record| !states.contains(&record.state))
}

fn answer(status: u16) -> Terminal {
    let result_id = (status < 400).then(|| "order-17".to_string());
    let reason = (status >= 500).then_some(Reason::ServerError);
    Terminal { status: Some(status), reason, result_id, has_response: true }
}

fn wrote(written: Record) -> Result<Write, Refused> {
    Ok(Write::Update(written))
}

fn stale(record: &Record) -> Result<Write, Refused> {
    Err(Refused::Stale { state: record.state })
}

fn nothing(record: &Record) -> Result<Write, Refused> {
    Err(Refused::Nothing { state: record.state })
}
