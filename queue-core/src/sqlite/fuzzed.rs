//! What the project's own fuzzing reaches.

use super::doors::row;

/// A job's failures, read for [`crate::__fuzz`].
pub(crate) fn failures(bytes: &[u8]) {
    let read = row::failures(Some(bytes));
    if let Err(error) = read {
        assert!(error.to_string().len() <= crate::envelope::ERROR_MAX, "a message of {} bytes", error.to_string().len());
    }
}

/// What is wrong with a URL, for [`crate::__fuzz`].
pub(crate) fn url(text: &str) -> Option<String> {
    super::url::target(text).err().map(|error| error.to_string())
}
