//! A worker binary of a newer release, in which a parameter of the task has another type.

use std::process::ExitCode;

use queue_core::prelude::*;

#[task(queue = "letters", retention = "1h")]
async fn remind(to: String) -> Result<String, std::convert::Infallible> {
    Ok(format!("{to} is reminded"))
}

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::run(async |worker| Ok(worker)).await
}
