//! What a store is asked, and what it tells.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use samekey_core::claim::{Event, Holder, Record, Refused, Say};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::select::Profile;
use samekey_core::{Actor, Key, Policy, Timestamp};

use super::{Note, RecordId};

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
    /// All names that the configuration knows, if there is one: a key that is unknown here but known under a name
    /// outside of it does not run, because its record was made under another configuration.
    pub named: Option<Arc<BTreeSet<String>>>,
    /// The key.
    pub key: Key,
    /// The fingerprint under `profile`.
    pub fingerprint: Fingerprint,
    /// What of the payload counted. Kept with a new record, which is compared under it for ever.
    pub profile: Arc<Profile>,
    /// The operation's contract.
    pub policy: Arc<Policy>,
    /// The delivery's own id; a claim keeps it, for whoever looks for the record.
    pub request_id: Option<Arc<str>>,
    /// A nonce drawn for this delivery.
    pub holder: Holder,
    /// A key with a UUID or ULID that is unknown here but known under another actor is `actor_changed`.
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
    /// The operation under which it was made; another than the delivery's where that one is an alias.
    pub operation: String,
    /// That name stood in a configuration.
    pub configured: bool,
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

/// What whoever asks wants of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To run, or to hear how it stands.
    Run,
    /// That it never runs.
    Close,
}

/// An event on its way to a record.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) id: RecordId,
    pub(super) policy: Arc<Policy>,
    pub(super) event: Event,
    pub(super) response: Option<StoredResponse>,
    /// Who settles, and on what grounds.
    pub(super) note: Note,
}

/// A terminal answer without its status, which the record holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredResponse {
    /// In order, with repetitions and exact bytes.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// With its content coding.
    pub body: Bytes,
}
