use queue_core::prelude::*;

#[derive(Task)]
struct Send<T> {
    order_id: T,
}

fn main() {
    drop(Send { order_id: 1 }.job());
}
