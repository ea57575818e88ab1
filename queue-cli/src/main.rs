//! The program `queue`. `queue --help` lists its commands; `queue dashboard` serves the dashboard.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    queue_cli::operate().await
}
