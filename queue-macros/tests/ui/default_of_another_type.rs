use queue_core::prelude::*;

#[task]
async fn send(#[default("one")] order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
