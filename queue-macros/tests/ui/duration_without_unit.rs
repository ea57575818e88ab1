use queue_core::prelude::*;

#[task(retention = "30")]
async fn send(order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
