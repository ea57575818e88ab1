//! The clock of everything that the worker waits for.

use std::time::Instant;

/// Now, by the runtime's clock: in a test or simulation that owns the time, its own.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
