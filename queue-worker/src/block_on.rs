//! A runtime for a program that has none.

use std::time::Duration;

/// How long what is left on the blocking threads of the runtime may take.
const LEFT: Duration = Duration::from_secs(1);

/// Runs a future to its end on a Tokio runtime of its own, with a thread for each core. It does
/// what `#[tokio::main]` does, for a program that does not depend on Tokio itself; but it does not
/// wait for threads that handlers block: at its end they have a second, and no more.
///
/// ```
/// use queue_core::prelude::*;
///
/// let location: queue_core::Result<String> = queue_worker::block_on(async {
///     let queue = Client::connect("sqlite://:memory:").await?;
///     Ok(queue.info().location)
/// });
/// assert_eq!(location.unwrap(), ":memory:");
/// ```
///
/// # Panics
/// If the caller already runs on a runtime, or the operating system cannot start a thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("the operating system gives threads and a place to wait for events");
    let output = runtime.block_on(future);
    runtime.shutdown_timeout(LEFT);
    output
}
