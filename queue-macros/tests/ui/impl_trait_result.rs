use queue_core::prelude::*;

#[task]
async fn send(order_id: u64) -> impl std::fmt::Debug {
    order_id
}

fn main() {
    drop(send::job(1));
}
