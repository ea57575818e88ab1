use queue_core::prelude::*;

pub struct Order;

#[task]
async fn send(orders: Option<Vec<Order>>) {
    let _ = orders;
}

fn main() {}
