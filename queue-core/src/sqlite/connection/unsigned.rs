//! Stores `u64` and `usize` as signed integers of SQLite. Only some of the versions of rusqlite
//! that Cargo may select convert them, and others need a feature for it.

use rusqlite::{
    Row,
    types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef},
};

/// A `u64` or `usize`. A number that does not fit is an error in both directions.
pub(crate) struct Unsigned<T>(pub(crate) T);

impl<T: TryFrom<i64>> Unsigned<T> {
    /// The number in a column.
    pub(crate) fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
        row.get::<_, Self>(column).map(|Self(number)| number)
    }
}

impl<T: TryFrom<i64>> FromSql for Unsigned<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = i64::column_result(value)?;
        T::try_from(number).map(Self).map_err(|_| FromSqlError::OutOfRange(number))
    }
}

impl<T: Copy + TryInto<i64, Error = std::num::TryFromIntError>> ToSql for Unsigned<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = self.0.try_into().map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(ToSqlOutput::Owned(Value::Integer(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_an_error() {
        assert_eq!(Unsigned(7_usize).to_sql().unwrap(), ToSqlOutput::Owned(Value::Integer(7)));
        assert!(Unsigned(u64::MAX).to_sql().is_err());
        assert_eq!(Unsigned::<u64>::column_result(ValueRef::Integer(7)).unwrap().0, 7);
        assert!(Unsigned::<u64>::column_result(ValueRef::Integer(-1)).is_err());
        assert!(Unsigned::<usize>::column_result(ValueRef::Text(b"7")).is_err());
    }
}
