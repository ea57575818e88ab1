use queue_core::prelude::*;

trait Shop {
    #[task(blocking)]
    fn close(order_id: u64) {
        let _ = order_id;
    }
}

fn main() {}
