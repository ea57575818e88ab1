use queue_core::prelude::*;

trait Close {
    fn close(order_id: u64);
}

struct Shop;

impl Close for Shop {
    #[task(blocking)]
    fn close(order_id: u64) {
        let _ = order_id;
    }
}

fn main() {
    Shop::close(1);
}
