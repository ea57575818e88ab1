use queue_core::prelude::*;

#[task]
async fn send(#[inject] order_id: u64) {
    let _ = order_id;
}

fn main() {}
