use queue_core::prelude::*;

#[task(tag(ordre))]
async fn send(order: u64) {
    drop(order);
}

fn main() {}
