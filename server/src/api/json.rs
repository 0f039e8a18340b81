//! JSON that stays as it was written, and times that say their unit.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::asked::invalid;
use crate::cli::duration;
use crate::problem::Problem;

/// Any JSON, digit by digit as it came: a number that passed through a double would be another payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Json(Box<RawValue>);

impl Json {
    pub(super) fn bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.0.get().as_bytes())
    }

    /// Bytes that are JSON.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().map(Self)
    }

    /// A member that is there, `null` too.
    pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Self::deserialize(deserializer).map(Some)
    }
}

impl JsonSchema for Json {
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Any JSON value." })
    }
}

/// A time with its unit: `30s`, `2m`, `500ms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A time with its unit.",
            "pattern": "^[0-9]{1,6}(ms|s|m|h|d)$",
            "examples": ["30s", "2m", "500ms"],
        })
    }
}

/// Whole seconds and parts of one, for programs that sleep by them.
pub(super) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Bytes that a member spells in base64.
pub(super) fn bytes(member: &str, text: &str) -> Result<Bytes, Problem> {
    let decoded = STANDARD.decode(text).map_err(|error| {
        invalid(member, format!("{error}; write the bytes in standard base64 with its padding (RFC 4648, section 4)"))
    })?;
    Ok(decoded.into())
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
