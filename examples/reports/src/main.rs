//! The worker and its command line: `reports --help`. A customer signs up with
//! `reports schedules add nightly-7 --cron '0 2 * * *' --tz Europe/Berlin --task report --args '{"customer":7}'`.

use std::process::ExitCode;

use reports::Archive;

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::run(async |worker| Ok(worker.data(Archive::default()))).await
}
