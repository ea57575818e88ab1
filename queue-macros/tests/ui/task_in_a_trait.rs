use queue_core::prelude::*;

trait Shop {
    #[task]
    async fn close(order_id: u64);
}

fn main() {}
