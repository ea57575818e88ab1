use queue_core::prelude::*;

#[derive(Event)]
struct OrderPaid {
    order: u64,
}

fn main() {}
