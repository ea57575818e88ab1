//! The clock for all waits of the worker.

use std::time::Instant;

/// The current time of the runtime's clock. In a test or simulation that controls the time, it is
/// the simulated time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
