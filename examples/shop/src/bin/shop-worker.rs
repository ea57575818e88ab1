//! The worker: `cargo run -p shop --bin shop-worker`. `--help` lists its commands.

use std::process::ExitCode;

use shop::open_store;

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::run(async |worker| {
        let store = open_store().await?;
        let relay = store.relay()?;
        Ok(worker.data(store).outbox(relay))
    })
    .await
}
