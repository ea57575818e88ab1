//! Why a run failed.

use std::{error::Error as StdError, fmt, mem, sync::Arc};

use super::{drop_catching_panics, error_text, links};

/// Why a run failed: its messages, which are stored, and the error itself while the worker has it,
/// for
/// [`custom_backoff`](https://docs.rs/queue-worker/latest/queue_worker/struct.Worker.html#method.custom_backoff)
/// and middleware.
///
/// It is made from a text (`"not yet".into()`), or from an error by
/// [`Outcome::retry`](crate::Outcome::retry) and the similar methods.
#[derive(Clone)]
pub struct Failure {
    text: String,
    error: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Failure {
    /// The failure of a run with this error: its text has the messages of the error and of its
    /// sources.
    pub fn of(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = error.into();
        Failure { text: error_text(error.as_ref()), error: Some(error.into()) }
    }

    /// The messages of the error and of its sources, joined by `: `.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error, if there was one.
    pub fn error(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.error.as_deref()
    }

    /// The first among the error and its sources that is an `E`.
    pub fn find<E: StdError + 'static>(&self) -> Option<&E> {
        let error: &(dyn StdError + 'static) = self.error.as_deref()?;
        links(error).find_map(|error| error.downcast_ref())
    }

    /// Only the text.
    pub fn into_text(mut self) -> String {
        mem::take(&mut self.text)
    }
}

/// An error that panics when it is dropped fails nothing else.
impl Drop for Failure {
    fn drop(&mut self) {
        self.error.take().into_iter().for_each(drop_catching_panics);
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure { text, error: None }
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Two failures are equal if their texts are.
impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}
