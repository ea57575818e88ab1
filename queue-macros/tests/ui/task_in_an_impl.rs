use queue_core::prelude::*;

struct Shop;

impl Shop {
    #[task(queue = "orders")]
    async fn close(order_id: u64, #[default] shop: String) {
        drop((order_id, shop));
    }
}

fn main() {
    let _ = Shop;
}
