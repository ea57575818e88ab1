use queue_core::prelude::*;

struct Shop;

impl Shop {
    #[task]
    async fn close(&self, order_id: u64) {}
}

fn main() {}
