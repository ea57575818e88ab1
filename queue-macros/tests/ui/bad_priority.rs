use queue_core::prelude::*;

#[task(priority = "urgent")]
async fn send(order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
