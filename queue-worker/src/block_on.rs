//! A runtime for a program that has none.

use std::time::Duration;

/// The time that work on the blocking threads of the runtime has left when the future ends.
const LEFT: Duration = Duration::from_secs(1);

/// Runs a future to its end on a new Tokio runtime with a thread for each core. It does what
/// `#[tokio::main]` does, for a program that does not depend on Tokio itself. Unlike
/// `#[tokio::main]`, it waits at most one second at its end for threads that handlers block.
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
