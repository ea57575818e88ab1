//! The definition of a schedule, from code and from operators.

use serde::{Deserialize, Serialize};

use crate::{
    codec,
    error::{Error, Result},
};

/// The stored form of a schedule except its state. Brokers do not read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleDefinition {
    /// The effective definition.
    #[serde(rename = "b")]
    pub body: ScheduleBody,
    /// Whether an operator, or the application at run time, has set it: that overrides
    /// declarations.
    #[serde(rename = "p", skip_serializing_if = "is_false")]
    pub by_person: bool,
    /// The declarations of the workers' releases, the first seen first.
    #[serde(rename = "d", skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<Declaration>,
    /// The time since which no live worker declares the effective definition, although code has
    /// declared it.
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    pub undeclared_ms: Option<i64>,
}

/// The declaration of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Declaration {
    /// The release.
    #[serde(rename = "r")]
    pub release: String,
    /// When this release first declared it.
    #[serde(rename = "f")]
    pub first_ms: i64,
    /// The declared definition.
    #[serde(rename = "b")]
    pub body: ScheduleBody,
}

/// When a schedule ticks, and what its ticks do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleBody {
    /// The original text of the expression.
    #[serde(rename = "x")]
    pub expression: String,
    /// The time zone.
    #[serde(rename = "z")]
    pub zone: String,
    /// The envelope of its jobs, without times.
    #[serde(rename = "j", with = "binary")]
    pub envelope: Vec<u8>,
    /// Their priority.
    #[serde(rename = "p")]
    pub priority: u8,
    /// Their group.
    #[serde(rename = "g", skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The keys of their limits, in hexadecimal.
    #[serde(rename = "l", skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// The number of starts that each job counts for, if it is not one.
    #[serde(rename = "q", skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// How long after its tick a job may start.
    #[serde(rename = "k", skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The policy for a tick while the job of the last one has not ended.
    #[serde(rename = "o")]
    pub overlap: String,
    /// The policy for missed ticks.
    #[serde(rename = "c")]
    pub catch_up: String,
    /// The catch-up window: missed ticks that are older are skipped.
    #[serde(rename = "w", skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// The jitter: the longest delay of a tick.
    #[serde(rename = "i", skip_serializing_if = "is_zero")]
    pub jitter_ms: u64,
    /// The first tick is not before this time.
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<i64>,
    /// The last tick is not after this time.
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<i64>,
    /// The total number of ticks.
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
    /// The number of dead jobs in a row that pauses it; 0: none.
    #[serde(rename = "d", skip_serializing_if = "is_zero")]
    pub pause_after: u64,
}

impl ScheduleDefinition {
    /// Encodes it for storage.
    pub fn encode(&self) -> Vec<u8> {
        codec::pack(self).expect("numbers, texts and bytes can be encoded")
    }

    /// Decodes the stored form.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        codec::unpack(bytes).map_err(|problem| Error::Decode { what: "the definition of a schedule".into(), problem })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Bytes as MessagePack's binary values.
mod binary {
    use std::fmt;

    use serde::{Deserializer, Serializer, de::Visitor};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
