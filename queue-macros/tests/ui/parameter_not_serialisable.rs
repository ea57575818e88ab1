use queue_core::prelude::*;

pub struct Order;

#[task]
async fn send(order: Order) {
    let _ = order;
}

fn main() {
    drop(send::job(Order));
}
