//! The program `queue`: every command of a worker binary, for any broker, without an application's tasks. `queue --help` lists them;
//! `queue dashboard` serves the dashboard.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::operate().await
}
