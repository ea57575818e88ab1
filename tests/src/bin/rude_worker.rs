//! A worker binary with badly behaved handlers, for the tests of the end of a process and of
//! blocked threads.

use std::{process::ExitCode, thread, time::Duration};

use queue_core::prelude::*;
use tokio::runtime::Builder;

/// Longer than any test.
const EVER: Duration = Duration::from_secs(600);

/// Blocks a separate thread.
#[task(queue = "rude", blocking)]
fn block_a_thread() {
    println!("blocked");
    thread::sleep(EVER);
}

/// Blocks a thread of the runtime.
#[task(queue = "rude")]
async fn block_the_runtime() {
    println!("blocked");
    thread::sleep(EVER);
}

/// This program has no subscription to it.
#[derive(Event)]
#[event(topic = "paid")]
struct OrderPaid {
    order: u64,
}

/// It is dropped at its first `await`, and leaves a blocked thread of the runtime.
#[task(queue = "rude")]
async fn leave_a_thread() {
    println!("blocked");
    let _ = tokio::task::spawn_blocking(|| thread::sleep(EVER)).await;
}

/// Ends only when it is cancelled.
#[task(queue = "polite")]
async fn obey(ctx: JobContext) -> Outcome {
    println!("waiting");
    Outcome::Stopped(ctx.cancelled().await)
}

/// Logs more than a pipe can hold, and continues until a file exists.
#[task(queue = "talkative")]
async fn talk(until: String) {
    println!("talking");
    for number in 0..20_000 {
        tracing::info!(number, "a line of the log that nobody reads, and that is as long as such lines often are");
    }
    // The hook of the standard library would write to standard error directly, and block there.
    let _ = std::panic::catch_unwind(|| panic!("a panic that nobody reads"));
    println!("talked");
    while !std::path::Path::new(&until).exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// With `THREADS=0`, the runtime has only the thread of `main`.
fn main() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let mut builder = match number("THREADS") {
        Some(0) => Builder::new_current_thread(),
        threads => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads.unwrap_or(2));
            builder
        }
    };
    let runtime = builder.enable_all().build().expect("there are threads");
    let lease = number("LEASE_SECONDS").map_or(Duration::from_secs(30), |seconds| Duration::from_secs(seconds as u64));
    runtime.block_on(queue_worker::run(async |worker| Ok(worker.lease(lease))))
}
