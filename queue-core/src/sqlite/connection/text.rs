//! Text columns of SQLite, which may be invalid UTF-8 if another program has written them.

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
