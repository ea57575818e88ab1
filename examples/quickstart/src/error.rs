//! One error type with a text for the user.

use std::fmt;

/// The message of an error.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}
