//! Where records live. One seam, few verbs: [`Store::peek`], [`Store::deliver`], [`Store::apply`], [`Store::hold`].
//!
//! A store loads a record, asks [`samekey_core::claim`] what to write and what to say, and writes it in the same
//! transaction if the record still has the revision that was asked about. Nobody is answered before COMMIT returned.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use samekey_core::claim::{Holder, Record, Refused, Say};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::select::Profile;
use samekey_core::{Actor, Key, Policy, Timestamp};

/// Names a record for as long as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub i64);

/// One delivery, as the store needs to know it.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Who asks.
    pub actor: Actor,
    /// The operation's name: new records are made under it.
    pub operation: Cow<'static, str>,
    /// Further names under which a record is found: aliases and the automatic name.
    pub also: Vec<String>,
    /// The operation stands in the configuration; all others share one `forgotten_before`.
    pub configured: bool,
    /// The key.
    pub key: Key,
    /// The fingerprint under `profile`.
    pub fingerprint: Fingerprint,
    /// What of the payload counted. Kept with a new record, which is compared under it for ever.
    pub profile: Arc<Profile>,
    /// The operation's contract.
    pub policy: Arc<Policy>,
    /// A nonce drawn for this delivery.
    pub holder: Holder,
    /// A key with a UUID that is unknown here but known under another actor is `actor_changed`.
    pub fence_credentials: bool,
}

/// What a delivery is told.
#[derive(Clone, Debug)]
pub struct Told {
    /// What it hears.
    pub say: Say,
    /// The record, as it is after the write.
    pub found: Option<Found>,
    /// The stored response, with [`Say::Replay`].
    pub response: Option<StoredResponse>,
    /// The profile that [`Say::OtherProfile`] named, if the store knows it.
    pub profile: Option<Profile>,
    /// The store's clock when it looked.
    pub now: Timestamp,
}

/// A record and its name.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub id: RecordId,
    /// The record.
    pub record: Record,
}

/// What an event came to.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The record as it is now; `None` if it is forgotten.
    pub record: Option<Record>,
    /// Why the event did not apply.
    pub refused: Option<Refused>,
}

/// A terminal answer without its status, which the record holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredResponse {
    /// In order, with repetitions and exact bytes.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// With its content coding.
    pub body: Bytes,
}
