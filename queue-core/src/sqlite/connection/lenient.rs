//! Columns as other hands may have left them: SQLite keeps anything in any column. What is not of its type reads as zero or as
//! empty, so that one strange row is no reason to refuse all others.

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};

use crate::broker::snoozes_of;

/// A whole number.
pub(crate) struct Number(pub(crate) i64);

impl FromSql for Number {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Number(if let ValueRef::Integer(number) = value { number } else { 0 }))
    }
}

/// A number that counts something.
pub(crate) struct Count(pub(crate) u32);

impl FromSql for Count {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let Number(number) = Number::column_result(value)?;
        Ok(Count(u32::try_from(number.max(0)).unwrap_or(u32::MAX)))
    }
}

/// The stored number of snoozes: how often the job has snoozed, how often it was rate limited, and whether its round is odd.
#[derive(Clone, Copy)]
pub(crate) struct Snoozes(pub(crate) u32, pub(crate) u32, pub(crate) bool);

impl FromSql for Snoozes {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let Number(number) = Number::column_result(value)?;
        let (snoozes, rate_limited, odd) = snoozes_of(u64::try_from(number).unwrap_or(0));
        Ok(Snoozes(snoozes, rate_limited, odd))
    }
}

/// Bytes.
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl FromSql for Bytes {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Bytes(match value {
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        }))
    }
}

/// A text.
pub(crate) struct Words(pub(crate) String);

impl FromSql for Words {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let Bytes(bytes) = Bytes::column_result(value)?;
        Ok(Words(String::from_utf8_lossy(&bytes).into_owned()))
    }
}
