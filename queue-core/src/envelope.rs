//! The stored form of a job: its task and the time of its enqueue in fixed places, then a
//! MessagePack map with the payload.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | version of the envelope, now 1 |
//! | 1 | length of the task's name |
//! | that many | the task's name |
//! | 6 | when it was enqueued, in broker milliseconds since 1970, the high byte first; 0: unknown |
//! | the rest | a MessagePack map |
//!
//! A script can therefore read the task with string operations, in every version. The map:
//!
//! | key | field | type |
//! |---|---|---|
//! | `p` | payload: a MessagePack map by parameter name | binary |
//! | `m` | maximum of attempts, if the job overrides its task | integer |
//! | `o` | timeout in milliseconds, if the job overrides its task | integer |
//! | `k` | retention in milliseconds, if the job overrides its task | integer |
//! | `x` | the job must not start after this time, in broker milliseconds since 1970 | integer |
//! | `d` | the delay with which the job was enqueued, in milliseconds | integer |
//! | `t` | the time for which the job was enqueued, in broker milliseconds since 1970 | integer |
//! | `h` | headers, `traceparent` among them | map of strings |
//! | `u` | the text of the job's unique key | string |
//! | `s` | the tick of a schedule for which the job was made, in milliseconds since 1970 | integer |
//! | `n` | the name of that schedule | string |
//! | `g` | its tags | map of strings |
//!
//! The id is not part of the envelope, which is stored under the id. Unknown keys are skipped, so
//! that newer fields (parent, result schema) can be added. Of an envelope with a newer *version*
//! only the version and the task are read, and the job is parked.

pub(crate) mod tags;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize, Serializer};

use self::tags::check_tags;
use crate::{
    codec,
    error::{Error, Result},
};

/// The newest envelope version this library reads and the one it writes.
pub const ENVELOPE_VERSION: u8 = 1;

/// Largest payload in bytes.
pub(crate) const PAYLOAD_MAX: usize = 256 * 1024;

/// Largest result in bytes; a larger one finishes its job without it.
pub(crate) const RESULT_MAX: usize = 64 * 1024;

/// Longest error message in bytes; a longer one is cut.
pub(crate) const ERROR_MAX: usize = 8 * 1024;

/// Most headers of a job.
pub(crate) const HEADERS_MAX: usize = 32;

/// Most bytes of all headers of a job together, names and values.
pub(crate) const HEADER_BYTES_MAX: usize = 4 * 1024;

/// The beginning of the task's name, after the version and the length of the name.
const TASK: usize = 2;

/// Bytes of the time of enqueue.
const TIME: usize = 6;

/// A job as stored, borrowed from its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope<'a> {
    /// The version of the envelope.
    pub version: u8,
    /// The task's name.
    pub task: Cow<'a, str>,
    /// When the job was enqueued: the producer's estimate of the broker's time, in milliseconds
    /// since 1970. The producer learns that time when it registers, and adds the elapsed time of
    /// its own monotonic clock. `None` if the producer did not set it.
    pub enqueued_ms: Option<i64>,
    /// The encoded payload.
    pub payload: &'a [u8],
    /// Most attempts, where the job has its own.
    pub max_attempts: Option<u32>,
    /// Timeout in milliseconds, where the job has its own.
    pub timeout_ms: Option<u64>,
    /// Retention in milliseconds, where the job has its own.
    pub retention_ms: Option<u64>,
    /// Not to be started after this, in broker milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// The delay with which it was enqueued, in milliseconds. For display and statistics: the
    /// broker has its own.
    pub delay_ms: Option<u64>,
    /// The time for which it was enqueued, in broker milliseconds since 1970. For display and
    /// statistics, too.
    pub at_ms: Option<i64>,
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// The text of its unique key, if it has one. For display: the broker has its own form.
    pub unique: Option<Cow<'a, str>>,
    /// The tick of a schedule for which the job was made, in milliseconds since 1970.
    pub tick_ms: Option<i64>,
    /// The name of that schedule, in the queue of the job.
    pub schedule: Option<Cow<'a, str>>,
    /// The limits of the job, each with the text of its key. The broker has its own form.
    pub limits: BTreeMap<String, String>,
    /// The number of starts that it counts for, if it is not one.
    pub cost: Option<u32>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// The map after the fixed fields.
#[derive(Serialize, Deserialize)]
struct Map<'a> {
    #[serde(rename = "p", borrow, serialize_with = "binary")]
    payload: &'a [u8],
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    retention_ms: Option<u64>,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    at_ms: Option<i64>,
    #[serde(rename = "h", default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: Cow<'a, BTreeMap<String, String>>,
    #[serde(rename = "u", borrow, default, skip_serializing_if = "Option::is_none")]
    unique: Option<Cow<'a, str>>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    tick_ms: Option<i64>,
    #[serde(rename = "n", borrow, default, skip_serializing_if = "Option::is_none")]
    schedule: Option<Cow<'a, str>>,
    #[serde(rename = "l", default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: Cow<'a, BTreeMap<String, String>>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    cost: Option<u32>,
    #[serde(rename = "g", default, skip_serializing_if = "BTreeMap::is_empty")]
    tags: Cow<'a, BTreeMap<String, String>>,
}

/// Also for empty bytes: serde would encode them as a list of elements, which cannot be borrowed
/// again.
fn binary<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl<'a> Envelope<'a> {
    /// An envelope without options.
    pub fn new(task: &'a str, payload: &'a [u8]) -> Self {
        Envelope::of(ENVELOPE_VERSION, task, None, payload)
    }

    fn of(version: u8, task: &'a str, enqueued_ms: Option<i64>, payload: &'a [u8]) -> Self {
        Envelope {
            version,
            task: Cow::Borrowed(task),
            enqueued_ms,
            payload,
            max_attempts: None,
            timeout_ms: None,
            retention_ms: None,
            expires_ms: None,
            delay_ms: None,
            at_ms: None,
            headers: BTreeMap::new(),
            unique: None,
            tick_ms: None,
            schedule: None,
            limits: BTreeMap::new(),
            cost: None,
            tags: BTreeMap::new(),
        }
    }

    /// Encodes it for storage.
    ///
    /// # Errors
    /// [`Error::PayloadTooLarge`] over [`PAYLOAD_MAX`]; [`Error::Invalid`] for more headers than
    /// [`HEADERS_MAX`] or [`HEADER_BYTES_MAX`], for tags that cannot be, and for a task's name that
    /// is empty or longer than 255 bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        if self.payload.len() > PAYLOAD_MAX {
            return Err(Error::PayloadTooLarge { task: self.task.to_string(), size: self.payload.len(), cap: PAYLOAD_MAX });
        }
        if self.headers.len() > HEADERS_MAX {
            let problem = format!("are more than the {HEADERS_MAX} that a job may have");
            return Err(Error::invalid("headers", self.headers.len().to_string(), problem));
        }
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers > HEADER_BYTES_MAX {
            let problem = format!("are more than the {HEADER_BYTES_MAX} that the headers of a job may have together");
            return Err(Error::invalid("headers", format!("{headers} bytes"), problem));
        }
        if !self.tags.is_empty() {
            check_tags(&self.tags)?;
        }
        let length = u8::try_from(self.task.len()).ok().filter(|length| *length > 0);
        let length = length.ok_or_else(|| Error::invalid("task", &*self.task, "needs a name of 1 to 255 bytes"))?;
        // Kept until the job is stored: no larger than it must be.
        let limits: usize = self.limits.iter().chain(&self.tags).map(|(name, key)| name.len() + key.len() + 8).sum();
        let unique = self.unique.as_ref().map_or(0, |unique| unique.len() + 8) + limits;
        let map = self.payload.len() + headers + unique + if self.has_options() { 128 } else { 8 };
        let mut bytes = Vec::with_capacity(TASK + self.task.len() + TIME + map);
        bytes.extend([self.version, length]);
        bytes.extend(self.task.as_bytes());
        bytes.extend(written(self.enqueued_ms));
        let map = Map {
            payload: self.payload,
            max_attempts: self.max_attempts,
            timeout_ms: self.timeout_ms,
            retention_ms: self.retention_ms,
            expires_ms: self.expires_ms,
            delay_ms: self.delay_ms,
            at_ms: self.at_ms,
            headers: Cow::Borrowed(&self.headers),
            unique: self.unique.as_deref().map(Cow::Borrowed),
            tick_ms: self.tick_ms,
            schedule: self.schedule.as_deref().map(Cow::Borrowed),
            limits: Cow::Borrowed(&self.limits),
            cost: self.cost,
            tags: Cow::Borrowed(&self.tags),
        };
        codec::pack_into(&mut bytes, &map).map_err(|problem| Error::Encode { task: self.task.to_string(), problem })?;
        Ok(bytes)
    }

    /// The bytes of an envelope without its expiry; `None` if it has none, or cannot be read. A job
    /// that an operator requeues no longer expires.
    pub fn without_expiry(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut envelope = Envelope::decode(bytes).ok()?;
        envelope.expires_ms.take()?;
        envelope.encode().ok()
    }

    fn has_options(&self) -> bool {
        !self.headers.is_empty()
            || (self.delay_ms, self.at_ms, self.tick_ms) != (None, None, None)
            || (self.max_attempts, self.timeout_ms, self.retention_ms, self.expires_ms) != (None, None, None, None)
    }

    /// Reads a stored envelope. Bounds are checked before anything is decoded. Of a newer version
    /// only version and task are read.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        Envelope::read(bytes).map_err(|problem| Error::Decode { what: "an envelope".into(), problem })
    }

    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let [version, length, rest @ ..] = bytes else {
            return Err(format!("its {} bytes are too few for a version and the length of a task's name", bytes.len()));
        };
        if *version == 0 {
            return Err("its first byte is 0; versions start at 1".to_owned());
        }
        let task = rest.split_at_checked(usize::from(*length)).filter(|(task, _)| !task.is_empty());
        let (task, rest) = task.ok_or_else(|| format!("the length of its task's name is {length}, and {} bytes follow", rest.len()))?;
        let task = str::from_utf8(task).map_err(|_| "its task's name is not UTF-8".to_owned())?;
        if *version > ENVELOPE_VERSION {
            return Ok(Envelope::of(*version, task, None, &bytes[..0]));
        }
        let (time, map) = rest.split_at_checked(TIME).ok_or_else(|| "it ends before the time at which it was enqueued".to_owned())?;
        let enqueued = time.iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
        let map: Map<'_> = codec::unpack(map)?;
        let Map {
            payload,
            max_attempts,
            timeout_ms,
            retention_ms,
            expires_ms,
            delay_ms,
            at_ms,
            headers,
            unique,
            tick_ms,
            schedule,
            limits,
            cost,
            tags,
        } = map;
        let enqueued_ms = (enqueued > 0).then_some(enqueued);
        let fixed = Envelope::of(*version, task, enqueued_ms, payload);
        Ok(Envelope {
            max_attempts,
            timeout_ms,
            retention_ms,
            expires_ms,
            delay_ms,
            at_ms,
            headers: headers.into_owned(),
            unique,
            tick_ms,
            schedule,
            limits: limits.into_owned(),
            cost,
            tags: tags.into_owned(),
            ..fixed
        })
    }

    /// When the job was enqueued, by the producer's estimate of the broker's time.
    pub fn enqueued_at(&self) -> Option<SystemTime> {
        self.enqueued_ms.and_then(|ms| u64::try_from(ms).ok()).map(|ms| UNIX_EPOCH + Duration::from_millis(ms))
    }

    /// The time from which the job could start for the first time, in broker milliseconds since
    /// 1970, by the producer's estimate. `None` if the producer did not set it.
    pub fn startable_ms(&self) -> Option<i64> {
        let enqueued = self.enqueued_ms?;
        let delay = i64::try_from(self.delay_ms.unwrap_or(0)).unwrap_or(i64::MAX);
        Some(enqueued.saturating_add(delay).max(self.at_ms.unwrap_or(0)))
    }

    /// The job's own timeout.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// The job's own retention.
    pub fn retention(&self) -> Option<Duration> {
        self.retention_ms.map(Duration::from_millis)
    }

    /// The digest of task and payload that distinguishes a repeated enqueue from a conflicting one
    /// (FNV-1a, 64 bits).
    pub fn digest(&self) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in self.task.as_bytes().iter().chain([&0u8]).chain(self.payload) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    }
}

/// Writes the time of enqueue into an encoded envelope that has none.
pub(crate) fn stamp(envelope: &mut [u8], enqueued_ms: i64) {
    let Some(at) = envelope.get(1).map(|length| TASK + usize::from(*length)) else { return };
    if let Some(time) = envelope.get_mut(at..at + TIME).filter(|time| time.iter().all(|byte| *byte == 0)) {
        time.copy_from_slice(&written(Some(enqueued_ms)));
    }
}

/// A time before 1970, or after the year 10,000, is unknown.
fn written(enqueued_ms: Option<i64>) -> [u8; TIME] {
    let ms = enqueued_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms < 1 << (8 * TIME)).unwrap_or(0);
    let [_, _, bytes @ ..] = ms.to_be_bytes();
    bytes
}

#[cfg(test)]
mod tests;
