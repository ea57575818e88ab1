use queue_core::prelude::*;

#[derive(Event)]
#[event(topic = "orders")]
struct OrderPaid {
    order: u64,
}

#[subscribe(name = "billing")]
async fn bill(event: OrderPaid) {
    println!("{}", event.order);
}

fn main() {}
