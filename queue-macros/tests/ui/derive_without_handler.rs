use queue_core::prelude::*;

#[derive(Task)]
struct Send {
    order_id: u64,
}

fn main() {
    drop(Send { order_id: 1 }.job());
}
