//! What a claim is for: the fingerprint of a payload as a delivery over HTTP has it, or one that was taken elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use samekey_core::Policy;
use samekey_core::fingerprint::{Fingerprint, Payload as Parts, fingerprint};
use samekey_core::problem::Code;
use samekey_core::select::Profile;

use super::asked::{invalid, request_invalid};
use super::json::{Json, bytes};
use crate::layer::admit;
use crate::problem::Problem;

/// A payload, or what is known of it.
pub(super) enum Payload {
    Body { content_type: String, body: Bytes },
    Taken(Fingerprint),
}

impl Payload {
    /// Of the members that may say it; one of them does.
    pub(super) fn of(
        payload: Option<&Json>,
        payload_base64: Option<&str>,
        content_type: Option<String>,
        fingerprint: Option<&str>,
    ) -> Result<Self, Problem> {
        match (payload, payload_base64, fingerprint) {
            (Some(_), None, None) if content_type.is_some() => {
                Err(invalid("content_type", "a payload is application/json; leave it out, or send payload_base64"))
            }
            (Some(json), None, None) => Ok(Self::Body { content_type: "application/json".into(), body: json.bytes() }),
            (None, Some(text), None) => {
                let content_type = content_type
                    .ok_or_else(|| invalid("content_type", "payload_base64 needs it; write for instance text/csv"))?;
                Ok(Self::Body { content_type, body: bytes("payload_base64", text)? })
            }
            (None, None, Some(text)) => {
                let taken = Fingerprint::parse(text).map_err(|error| invalid("fingerprint", error))?;
                Ok(Self::Taken(taken))
            }
            (None, None, None) => {
                Err(request_invalid("say what the claim is for: payload, payload_base64 or fingerprint is missing"))
            }
            _ => Err(request_invalid("payload, payload_base64 and fingerprint exclude each other; send one of them")),
        }
    }

    /// Within the operation's limit for bodies.
    pub(super) fn check_size(&self, policy: &Policy) -> Result<(), Problem> {
        let limit = policy.max_body_bytes;
        match self {
            Self::Body { body, .. } if body.len() > limit => {
                let why = format!("The payload may have at most {limit} bytes, this one has {}.", body.len());
                Err(Problem::new(Code::PayloadTooLarge, why).member("max_body", limit))
            }
            _ => Ok(()),
        }
    }

    /// Its fingerprint under this profile.
    pub(super) async fn under(&self, profile: &Arc<Profile>) -> Result<Fingerprint, Problem> {
        match self {
            Self::Taken(taken) if taken.profile() == profile.id() => Ok(*taken),
            Self::Taken(taken) => Err(invalid(
                "fingerprint",
                format!(
                    "it was taken under the list of significant fields {}, this key is compared under {}; \
                     send the payload instead",
                    taken.profile(),
                    profile.id()
                ),
            )),
            Self::Body { content_type, body } => {
                let (content_type, body, profile) = (content_type.clone(), body.clone(), Arc::clone(profile));
                let taken = move || {
                    let content_type = Some(content_type.as_bytes());
                    fingerprint(&Parts { content_type, body: &body, ..Parts::default() }, &profile)
                };
                Ok(admit::off_thread_if_large(self.len(), taken).await)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Body { body, .. } => body.len(),
            Self::Taken(_) => 0,
        }
    }
}
