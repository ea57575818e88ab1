use queue_core::prelude::*;

struct OrderPaid {
    order: u64,
}

#[subscribe(name = "billing", from = "now")]
async fn bill(event: OrderPaid) {
    println!("{}", event.order);
}

fn main() {}
