use queue_core::prelude::*;

#[task(blocking = true)]
async fn send(order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
