use queue_core::prelude::*;

#[task(schedule(cron = "60 * * * *"))]
async fn report() {}

fn main() {}
