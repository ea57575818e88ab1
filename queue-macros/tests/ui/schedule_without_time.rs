use queue_core::prelude::*;

#[task(schedule(tz = "UTC"))]
async fn report() {}

fn main() {}
