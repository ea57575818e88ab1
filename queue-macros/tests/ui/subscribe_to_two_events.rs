use queue_core::prelude::*;

#[derive(Event)]
#[event(topic = "orders")]
struct OrderPaid {
    order: u64,
}

#[subscribe(name = "billing", from = "now")]
async fn bill(event: OrderPaid, other: OrderPaid) {
    println!("{} {}", event.order, other.order);
}

fn main() {}
