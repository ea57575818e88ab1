use queue_core::prelude::*;

#[task]
struct Send {
    order_id: u64,
}

fn main() {
    let _ = Send { order_id: 1 }.order_id;
}
