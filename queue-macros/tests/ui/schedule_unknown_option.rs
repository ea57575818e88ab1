use queue_core::prelude::*;

#[task(schedule(cron = "@hourly", timezone = "UTC"))]
async fn report() {}

fn main() {}
