use queue_core::prelude::*;

#[task(schedule(every = "90s", catch_up = "all"))]
async fn report() {}

fn main() {}
