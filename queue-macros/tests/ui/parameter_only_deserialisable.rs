use queue_core::prelude::*;

#[derive(serde::Deserialize)]
pub struct Order;

#[task]
async fn send(order: Order) {
    let _ = order;
}

fn main() {
    drop(send::job(Order));
}
