//! The stored form of a job: a small versioned MessagePack map around the payload.
//!
//! | key | field | type |
//! |---|---|---|
//! | `v` | version of the envelope, now 1 | integer |
//! | `t` | task | string |
//! | `p` | payload: a MessagePack map by parameter name | binary |
//! | `m` | most attempts, if the job overrides its task | integer |
//! | `o` | timeout in milliseconds, if the job overrides its task | integer |
//! | `k` | retention in milliseconds, if the job overrides its task | integer |
//! | `x` | not to be started after, in broker milliseconds since 1970 | integer |
//! | `h` | headers, `traceparent` among them | map of strings |
//!
//! The id is not repeated inside: it is the key under which the envelope is stored. Unknown keys are skipped, so that newer
//! fields (tags, group, unique key, parent, result schema) may be added; an envelope of a newer *version* is parked.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    codec,
    error::{Error, Result},
};

/// The newest envelope version this library reads and the one it writes.
pub const ENVELOPE_VERSION: u8 = 1;

/// Largest payload in bytes.
pub const PAYLOAD_MAX: usize = 256 * 1024;

/// Largest result in bytes; a larger one finishes its job without it.
pub const RESULT_MAX: usize = 64 * 1024;

/// Longest error message in bytes; a longer one is cut.
pub const ERROR_MAX: usize = 8 * 1024;

/// Most bytes of all headers of a job together.
pub const HEADERS_MAX: usize = 8 * 1024;

/// A job as stored, borrowed from its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Envelope<'a> {
    /// The version of the envelope.
    #[serde(rename = "v")]
    pub version: u8,
    /// The task's name.
    #[serde(rename = "t", borrow)]
    pub task: Cow<'a, str>,
    /// The encoded payload.
    #[serde(rename = "p", borrow, serialize_with = "binary")]
    pub payload: &'a [u8],
    /// Most attempts, where the job has its own.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Timeout in milliseconds, where the job has its own.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Retention in milliseconds, where the job has its own.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// Not to be started after this, in broker milliseconds since 1970.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<i64>,
    /// Headers.
    #[serde(rename = "h", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Also when there are none: as elements of a list, which is what serde takes them for, they could not be borrowed again.
fn binary<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl<'a> Envelope<'a> {
    /// An envelope without options.
    pub fn new(task: &'a str, payload: &'a [u8]) -> Self {
        Envelope {
            version: ENVELOPE_VERSION,
            task: Cow::Borrowed(task),
            payload,
            max_attempts: None,
            timeout_ms: None,
            retention_ms: None,
            expires_ms: None,
            headers: BTreeMap::new(),
        }
    }

    /// Encodes it for storage.
    ///
    /// # Errors
    /// [`Error::PayloadTooLarge`] over [`PAYLOAD_MAX`], [`Error::Invalid`] for headers over [`HEADERS_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        if self.payload.len() > PAYLOAD_MAX {
            return Err(Error::PayloadTooLarge { task: self.task.to_string(), size: self.payload.len(), cap: PAYLOAD_MAX });
        }
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers > HEADERS_MAX {
            return Err(Error::invalid("headers", format!("{headers} bytes"), format!("are more than the {HEADERS_MAX} bytes allowed")));
        }
        // Kept until the job is stored: no larger than it must be.
        let mut bytes = Vec::with_capacity(self.task.len() + self.payload.len() + headers + if self.has_options() { 128 } else { 16 });
        codec::encode_into(&mut bytes, self).map_err(|problem| Error::Encode { task: self.task.to_string(), problem })?;
        Ok(bytes)
    }

    fn has_options(&self) -> bool {
        !self.headers.is_empty() || (self.max_attempts, self.timeout_ms, self.retention_ms, self.expires_ms) != (None, None, None, None)
    }

    /// Reads a stored envelope. Bounds are checked before anything is decoded.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        codec::decode(bytes).map_err(|problem| Error::Decode { what: "an envelope".into(), problem })
    }

    /// The job's own timeout.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// The job's own retention.
    pub fn retention(&self) -> Option<Duration> {
        self.retention_ms.map(Duration::from_millis)
    }

    /// The digest of task and payload that tells an enqueue of the same job from a conflicting one (FNV-1a, 64 bits).
    pub fn digest(&self) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in self.task.as_bytes().iter().chain([&0u8]).chain(self.payload) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_survives_storage() {
        let mut envelope = Envelope::new("mail.send", b"\x81\xa2to\xa1x");
        envelope.max_attempts = Some(3);
        envelope.headers.insert("traceparent".into(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
        let bytes = envelope.encode().unwrap();
        assert_eq!(Envelope::decode(&bytes).unwrap(), envelope);
    }

    #[test]
    fn an_empty_payload_survives_storage() {
        let bytes = Envelope::new("mail.send", b"").encode().unwrap();
        assert_eq!(Envelope::decode(&bytes).unwrap().payload, b"");
    }

    #[test]
    fn an_envelope_without_options_adds_less_than_fifteen_bytes() {
        let bytes = Envelope::new("task", &[0; 100]).encode().unwrap();
        assert!(bytes.len() <= 4 + 100 + 14, "{}", bytes.len());
    }

    #[test]
    fn unknown_fields_of_a_newer_writer_are_skipped() {
        #[derive(Serialize)]
        struct Newer<'a> {
            v: u8,
            t: &'a str,
            g: &'a str,
            p: &'a [u8],
        }
        let bytes = codec::encode(&Newer { v: 1, t: "a", g: "tag", p: &[0x80] }).unwrap();
        assert_eq!(Envelope::decode(&bytes).unwrap().payload, [0x80]);
    }

    #[test]
    fn a_payload_over_the_cap_is_refused() {
        let payload = vec![0; PAYLOAD_MAX + 1];
        assert!(matches!(Envelope::new("a", &payload).encode(), Err(Error::PayloadTooLarge { .. })));
    }
}
