//! The decoders of this broker, for the project's fuzzer.

use super::doors::row;

/// Decodes a job's failures, for [`crate::__fuzz`].
pub(crate) fn failures(bytes: &[u8]) {
    let read = row::failures(Some(bytes));
    if let Err(error) = read {
        assert!(error.to_string().len() <= crate::envelope::ERROR_MAX, "a message of {} bytes", error.to_string().len());
    }
}

/// The problem of a URL, for [`crate::__fuzz`].
pub(crate) fn url(text: &str) -> Option<String> {
    super::url::target(text).err().map(|error| error.to_string())
}
