//! A small worker binary, for the tests of its command line.

use std::process::ExitCode;

use queue_core::prelude::*;

struct Shop {
    name: String,
}

/// Greets, and returns the text as its result.
#[task(queue = "greetings", retention = "1h", timeout = "30s")]
async fn greet(name: String, times: Option<u32>, shop: Data<Shop>, ctx: JobContext) -> Result<String, String> {
    ctx.log(format!("looks for {name}"));
    if name == "nobody" {
        return Err("there is nobody to greet".to_owned());
    }
    tracing::info!(shop = shop.name, "found");
    ctx.progress(0.5, format!("greeting {name}"));
    Ok(vec![format!("{} greets {name}", shop.name); times.unwrap_or(1) as usize].join(", "))
}

/// Fails permanently at once.
#[task(queue = "orders", max_attempts = 1)]
async fn close_order(order_id: u64) -> Result<(), String> {
    Err(format!("order {order_id} is\x1b[31m lost"))
}

/// Prints that it runs, and then runs for a long time.
#[task(queue = "slow")]
async fn wait_long() {
    println!("waiting");
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::run(async |worker| {
        // Only `work` calls this.
        let name = std::env::var("SHOP_NAME").map_err(|_| "SHOP_NAME is not set")?;
        Ok(worker.data(Shop { name }))
    })
    .await
}
