use queue_core::prelude::*;

#[task]
async fn send(order: Ordr) {
    let _ = order;
}

fn main() {}
