//! Decodes the values that a server answers. A value of an unexpected form was written by another
//! program.

use std::time::Duration;

use redis::Value;

use crate::error::{Error, Result};

pub(in crate::redis) fn unexpected_answer(what: &str) -> Error {
    Error::Internal(format!("{what} has an unknown form"))
}

pub(in crate::redis) fn array(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Nil => Ok(Vec::new()),
        _ => Err(unexpected_answer("an array")),
    }
}

pub(in crate::redis) fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        Value::Nil => Ok(Vec::new()),
        _ => Err(unexpected_answer("a string")),
    }
}

pub(in crate::redis) fn text(value: Value) -> Result<String> {
    String::from_utf8(bytes(value)?).map_err(|_| unexpected_answer("a text"))
}

pub(in crate::redis) fn number<T: TryFrom<i64> + std::str::FromStr>(value: Value) -> Result<T> {
    match value {
        Value::Int(number) => T::try_from(number).map_err(|_| unexpected_answer("a number")),
        other => text(other)?.parse().map_err(|_| unexpected_answer("a number")),
    }
}

/// A number for which the answer has a default: another program may have written any value.
pub(in crate::redis) fn count(value: Value) -> u32 {
    u32::try_from(large_count(value)).unwrap_or(u32::MAX)
}

/// The same with 64 bits.
pub(in crate::redis) fn large_count(value: Value) -> u64 {
    let digits = bytes(value).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    match digits.parse() {
        Ok(number) => number,
        Err(problem) if *problem.kind() == std::num::IntErrorKind::PosOverflow => u64::MAX,
        Err(_) => 0,
    }
}

/// A text for messages and pages.
pub(in crate::redis) fn display_text(value: Value) -> Result<String> {
    Ok(String::from_utf8_lossy(&bytes(value)?).into_owned())
}

/// The next value, which has to be present.
pub(in crate::redis) fn next(values: &mut impl Iterator<Item = Value>) -> Result<Value> {
    values.next().ok_or_else(|| unexpected_answer("an incomplete answer"))
}

/// The longest time, in milliseconds: 140,000 years. A score is a double, which represents twice
/// this number exactly.
pub(in crate::redis) const FOREVER: u64 = 1 << 52;

/// Milliseconds, rounded up, so that nothing starts early.
pub(in crate::redis) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(FOREVER).min(FOREVER)
}
