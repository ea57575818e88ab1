//! A worker binary of an older release: its task takes the number of a customer.

use std::process::ExitCode;

use queue_core::prelude::*;

#[task(queue = "letters", retention = "1h")]
async fn remind(to: u64) -> Result<String, std::convert::Infallible> {
    Ok(format!("customer {to} is reminded"))
}

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::run(async |worker| Ok(worker)).await
}
