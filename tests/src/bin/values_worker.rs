//! A worker binary with a task whose parameters have all types, for the tests of what is stored.

use std::process::ExitCode;

#[path = "../../tests/stored/values/table.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
mod table;

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::run(async |worker| Ok(worker)).await
}
