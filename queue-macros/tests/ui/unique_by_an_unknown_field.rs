use queue_core::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

#[task(unique(by = [order.number]))]
async fn send(order: Order) {
    drop(order.id);
}

fn main() {
    drop(send::job(Order { id: 1 }));
}
