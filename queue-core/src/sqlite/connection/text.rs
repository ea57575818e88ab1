//! Text of SQLite, which need not be UTF-8 where another program has written.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};

/// A text. Bytes that are not UTF-8 are replaced.
pub(crate) struct Text(pub(crate) String);

impl FromSql for Text {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(text) => Ok(Text(String::from_utf8_lossy(text).into_owned())),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}
