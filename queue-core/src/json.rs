//! The JSON form of records: times as RFC 3339 in UTC, durations in milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::codec::any_json::{self, to_json};

/// The last millisecond of the year 9999. Later times have no such form and become null.
const LAST: Duration = Duration::from_millis(253_402_300_799_999);

/// A time in UTC, to the millisecond.
pub(crate) fn utc<S: Serializer>(time: &(impl Copy + Into<Option<SystemTime>>), serializer: S) -> Result<S::Ok, S::Error> {
    let since = (*time).into().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).filter(|since| *since <= LAST);
    since.map(|since| humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()).serialize(serializer)
}

/// The same of a time in milliseconds since 1970.
pub(crate) fn utc_of_ms<S: Serializer>(ms: &(impl Copy + Into<Option<i64>>), serializer: S) -> Result<S::Ok, S::Error> {
    let since = (*ms).into().and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    utc(&since.and_then(|since| UNIX_EPOCH.checked_add(since)), serializer)
}

/// A duration in whole milliseconds.
pub(crate) fn ms<S: Serializer>(time: &(impl Copy + Into<Option<Duration>>), serializer: S) -> Result<S::Ok, S::Error> {
    (*time).into().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}

/// Names with their counts, as an object.
pub(crate) fn counts<S: Serializer>(counts: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(name, count)| (name, count)))
}

/// A stored value, or a text with the reason why it cannot be decoded.
pub(crate) fn stored<S: Serializer>(value: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    let value = value.as_deref().map(|bytes| self::value(bytes).unwrap_or_else(|problem| format!("(unreadable: {problem})").into()));
    value.serialize(serializer)
}

/// Decodes a stored value.
pub(crate) fn value(bytes: &[u8]) -> Result<Value, String> {
    text(&to_json(bytes)?)
}

/// Reads the JSON of a stored value.
pub(crate) fn text(json: &str) -> Result<Value, String> {
    any_json::read(json).map_err(|problem| problem.to_string())
}
