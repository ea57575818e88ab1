//! The mistakes of one task, which are reported together.

use proc_macro2::Span;
use syn::{Error, Result};

/// Collects mistakes.
#[derive(Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    /// Adds a mistake.
    pub(crate) fn add(&mut self, span: Span, message: impl std::fmt::Display) {
        self.error(Error::new(span, message));
    }

    /// Adds a mistake.
    pub(crate) fn error(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, or adds the error.
    pub(crate) fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.error(error)).ok()
    }

    /// Returns all mistakes as one error.
    pub(crate) fn finish(&self) -> Result<()> {
        self.0.clone().map_or(Ok(()), Err)
    }
}
