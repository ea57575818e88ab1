use queue_core::prelude::*;

pub struct Order;

#[task(blocking)]
fn send(order: Order) {
    let _ = order;
}

fn main() {}
