use queue_core::prelude::*;

use std::rc::Rc;

#[task]
async fn send(order_id: u64) {
    let order = Rc::new(order_id);
    std::future::ready(()).await;
    drop(order);
}

fn main() {
    drop(send::job(1));
}
