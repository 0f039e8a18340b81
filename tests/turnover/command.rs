//! One command from its claim to its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, header};
use samekey::clock::Clock;
use samekey::store::{Ask, StoredResponse};
use samekey::{Actor, Key, Policy, Store};
use samekey_core::claim::transition::Finish;
use samekey_core::claim::{Event, Holder, Say, Terminal};
use samekey_core::fingerprint::Fingerprint;
use samekey_core::select::{Profile, Significant};
use support::keys;

/// A few hundred tenants.
const ACTORS: u64 = 300;

/// Commands with keys of both kinds, in turn: those that carry their time, and random ones, which cost an index most.
pub(crate) struct Commands {
    template: Ask,
    clock: Clock,
    number: AtomicU64,
}

impl Commands {
    pub(crate) fn new(policy: Policy, clock: Clock) -> Self {
        let profile = Profile::new(None, Significant::default()).expect("a profile");
        let fingerprint = format!("fp1:raw:{}:{}", profile.id(), "0a".repeat(32));
        let template = Ask {
            actor: Actor::new("u"),
            operation: policy.operation.clone(),
            also: vec!["POST /orders".into()],
            configured: true,
            named: None,
            key: keys::v4().parse().expect("a key"),
            fingerprint: Fingerprint::parse(&fingerprint).expect("a fingerprint"),
            profile: Arc::new(profile),
            policy: Arc::new(policy),
            holder: Holder::from_bytes([1; 16]),
            request_id: None,
            fence_credentials: true,
        };
        Self { template, clock, number: AtomicU64::new(0) }
    }

    /// How long the claim took.
    pub(crate) async fn run(&self, store: &Store) -> Duration {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut entropy = [0; 10];
        getrandom::fill(&mut entropy).expect("random bytes");
        let key = match number % 2 {
            0 => Key::mint(self.clock.now(), entropy),
            _ => keys::v4().parse().expect("a key"),
        };
        let ask = Ask { actor: Actor::new(format!("u{}", number % ACTORS)), key, ..self.template.clone() };
        let asked = Instant::now();
        let told = store.deliver(ask.clone()).await.expect("an answer");
        let took = asked.elapsed();
        let (Say::Run(fence), Some(found)) = (told.say, told.found) else { panic!("no claim: {:?}", told.say) };
        let terminal = Terminal { status: Some(201), reason: None, result_id: Some("4711".into()), has_response: true };
        let headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let response = StoredResponse { headers, body: Bytes::from_static(&[b'x'; 300]) };
        let event = Event::Finish(fence, Finish::Terminal(terminal));
        store.apply(found.id, Arc::clone(&ask.policy), event, Some(response)).await.expect("an end");
        took
    }
}
