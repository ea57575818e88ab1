//! The record of a job as `show` returns it.

use redis::Value;
use serde::Deserialize;

use crate::{
    address::JobId,
    broker::{BuryReason, Failure, GroupName, JobLimits, JobState, Priority, StoredJob, UniqueKey, Unreadable, snoozes_of},
    error::{Error, Result},
    redis::values::{array, bytes, count, display_text, large_count, next},
};

/// A failure as Lua packs it: time and text.
#[derive(Deserialize)]
struct Packed(String, #[serde(with = "lossy")] String);

pub(super) mod lossy {
    //! Lua packs any string as text, even if its bytes are not valid UTF-8.
    use std::fmt;

    use serde::{Deserializer, de::Visitor};

    pub(in crate::redis) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = String;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<String, E> {
                Ok(text.to_owned())
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
                Ok(String::from_utf8_lossy(bytes).into_owned())
            }
        }
        deserializer.deserialize_str(Text)
    }

    pub(in crate::redis) mod bytes {
        //! The same with the original bytes.
        use std::fmt;

        use serde::{Deserializer, de::Visitor};

        pub(in crate::redis) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
            struct Bytes;
            impl Visitor<'_> for Bytes {
                type Value = Vec<u8>;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a string")
                }
                fn visit_str<E>(self, text: &str) -> Result<Vec<u8>, E> {
                    Ok(text.as_bytes().to_vec())
                }
                fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                    Ok(bytes.to_vec())
                }
            }
            deserializer.deserialize_str(Bytes)
        }
    }
}

pub(in crate::redis) fn failures(packed: &[u8]) -> Result<Vec<Failure>> {
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let packed: Vec<Packed> =
        crate::codec::unpack(packed).map_err(|problem| Error::Decode { what: "the failures of a job".to_owned(), problem })?;
    Ok(packed.into_iter().map(|Packed(at, message)| Failure { at_ms: at.parse().unwrap_or(0), message }).collect())
}

/// Decodes one job of `show`.
pub(in crate::redis) fn record(id: &JobId, value: Value) -> Result<Option<StoredJob>> {
    if matches!(value, Value::Nil) {
        return Ok(None);
    }
    let mut values = array(value)?.into_iter();
    let state: JobState = display_text(next(&mut values)?)?.parse().unwrap_or(JobState::Done);
    let mut record = StoredJob::new(id.clone(), state, bytes(next(&mut values)?)?);
    record.priority = u8::try_from(count(next(&mut values)?)).ok().and_then(Priority::from_number).unwrap_or_default();
    record.attempts = count(next(&mut values)?);
    record.crashes = count(next(&mut values)?);
    (record.snoozes, record.rate_limited, _) = snoozes_of(large_count(next(&mut values)?));
    record.at_ms = display_text(next(&mut values)?)?.parse().ok();
    record.receipt = Some(display_text(next(&mut values)?)?).filter(|receipt| !receipt.is_empty());
    record.failures =
        failures(&bytes(next(&mut values)?)?).unwrap_or_else(|problem| vec![Failure { at_ms: 0, message: problem.to_string() }]);
    let note = display_text(next(&mut values)?)?;
    match state {
        JobState::Dead => record.reason = BuryReason::from_name(&note),
        JobState::Parked => record.unreadable = Unreadable::of(&note),
        _ => record.note = Some(note).filter(|note| !note.is_empty()),
    }
    record.result = Some(bytes(next(&mut values)?)?).filter(|result| !result.is_empty());
    // The time until which the job is kept or stays parked. The answers of older scripts, which the
    // fuzz corpus has, end earlier.
    let until = values.next();
    if let (Some(unreadable), Some(until)) = (&mut record.unreadable, until) {
        unreadable.until_ms = display_text(until)?.parse().unwrap_or_default();
    }
    if let Some(Value::BulkString(key)) = values.next() {
        record.unique = key.get(..UniqueKey::BYTES).and_then(UniqueKey::from_bytes);
    }
    // Its place, whose length is in its first byte, and its group.
    if let Some(Value::BulkString(place)) = values.next() {
        let chain = usize::from(place.first().copied().unwrap_or_default());
        record.group = place.get(chain + 9..).and_then(GroupName::of_stored);
        record.limits = JobLimits::keys_of(place.get(..=chain).unwrap_or_default());
    }
    if let Some(rises) = values.next() {
        // The fraction only orders the rises of one millisecond.
        record.rises_ms = display_text(rises)?.split('.').next().and_then(|ms| ms.parse().ok());
    }
    if let Some(returned) = values.next() {
        (record.returns, record.returned_ms) = returns_of(&display_text(returned)?);
    }
    Ok(Some(record))
}

/// The number of returns, and the time of the last.
fn returns_of(stored: &str) -> (u32, Option<i64>) {
    let (count, last) = stored.split_once(':').unwrap_or((stored, ""));
    (count.parse().unwrap_or_default(), last.parse().ok())
}

/// The time until which an ended job of `show` is kept.
pub(in crate::redis) fn kept_until(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Array(values) => match values.get(11)? {
            Value::BulkString(until) => Some(until.as_slice()).filter(|until| !until.is_empty()),
            _ => None,
        },
        _ => None,
    }
}
