use queue_core::prelude::*;

#[derive(Event)]
#[event(topic = "orders", tag(number))]
struct OrderPaid {
    order: u64,
}

fn main() {}
