use queue_core::prelude::*;

#[task(schedule(every = "90s", overlap = "queue"))]
async fn report() {}

fn main() {}
