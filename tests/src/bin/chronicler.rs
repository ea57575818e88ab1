//! A worker process for tests that kill it. `JOURNAL` names the file it writes to, `LEASE_MS` its lease.

use std::{path::Path, process::ExitCode, time::Duration};

use queue_core::Client;
use queue_tests::chronicle::Journal;
use queue_worker::Worker;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let journal = Journal::open(Path::new(&std::env::var("JOURNAL")?));
    let lease = Duration::from_millis(std::env::var("LEASE_MS")?.parse()?);
    let worker = Worker::new(Client::from_env().await?).state(journal).concurrency(8).lease(lease);
    let stopped = worker.run_until_signal().await?;
    if !stopped.is_clean() {
        eprintln!("{stopped:?}");
    }
    Ok(stopped.is_clean())
}
