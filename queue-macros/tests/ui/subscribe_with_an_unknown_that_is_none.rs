use queue_core::prelude::*;

#[derive(Event)]
#[event(topic = "orders")]
struct OrderPaid {
    order: u64,
}

#[subscribe(name = "billing", from = "now", unknown = "drop")]
async fn bill(event: OrderPaid) {
    println!("{}", event.order);
}

fn main() {}
