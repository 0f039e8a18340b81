//! What statements share: the database's clock, and the names of its locks.

use samekey_core::{Actor, Key};
use sha2::{Digest, Sha256};

use super::PostgresOptions;

/// Unix milliseconds as the database shows them at this moment, not at the transaction's start.
pub(super) const CLOCK: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The expression that every statement dates records by.
#[cfg(not(test))]
pub(super) fn clock(_: &PostgresOptions) -> String {
    CLOCK.to_owned()
}

/// Tests move the database's time by a function of their own, which no built server knows how to ask for.
#[cfg(test)]
pub(super) fn clock(options: &PostgresOptions) -> String {
    options.test_clock.unwrap_or(CLOCK).to_owned()
}

/// Held while the tables are made.
pub(super) const SCHEMA_LOCK: i64 = 0x736d_6b79_0000_0001;

/// Held while the horizon is set.
pub(super) const HORIZON_LOCK: i64 = 0x736d_6b79_0000_0002;

/// Held while the kind of actor is compared.
#[cfg(feature = "cli")]
pub(super) const ACTOR_KIND_LOCK: i64 = 0x736d_6b79_0000_0003;

fn lock(kind: &str, parts: &[&str]) -> i64 {
    let mut hash = Sha256::new();
    hash.update(b"samekey lock 1\0");
    hash.update(kind.as_bytes());
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = hash;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Whoever makes or forgets a record of this actor and key holds this lock since before it looked, so that what it
/// saw of the key still holds when it commits: its names, their aliases, and where memory begins.
pub(super) fn key_lock(actor: &str, key: &str) -> i64 {
    lock("key", &[actor, key])
}

/// The same for the key under all actors: for keys that are known to one actor only, whoever asks.
pub(super) fn fence_lock(key: &str) -> i64 {
    lock("fence", &[key])
}

/// Whoever adds to an actor's keys in progress holds this lock since before it counted them.
pub(super) fn quota_lock(actor: &Actor) -> i64 {
    lock("quota", &[actor.stored()])
}

/// The locks of a key, as whoever forgets it must hold them.
pub(super) fn locks_of(actor: &str, key: &Key) -> Vec<i64> {
    let mut locks = vec![key_lock(actor, key.expose())];
    if key.contains_uuid_or_ulid() {
        locks.push(fence_lock(key.expose()));
    }
    locks
}
