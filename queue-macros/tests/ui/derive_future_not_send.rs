use queue_core::prelude::*;

use std::rc::Rc;

#[derive(Task)]
struct Send {
    order_id: u64,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {
        let order = Rc::new(self.order_id);
        std::future::ready(()).await;
        drop(order);
    }
}

fn main() {
    drop(Send { order_id: 1 }.job());
}
