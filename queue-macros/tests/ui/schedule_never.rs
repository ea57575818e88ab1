use queue_core::prelude::*;

#[task(schedule(cron = "0 0 30 2 *"))]
async fn report() {}

fn main() {}
