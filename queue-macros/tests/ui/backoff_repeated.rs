use queue_core::prelude::*;

#[task(backoff(base = "2s", base = "3s"))]
async fn send(order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
