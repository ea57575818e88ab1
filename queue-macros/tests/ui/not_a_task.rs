use queue_core::prelude::*;

async fn send(order_id: u64) {
    let _ = order_id;
}

struct Send;

fn all<T: Task>() {}

fn main() {
    drop(send(1));
    all::<Send>();
}
