use queue_core::prelude::*;

#[task(queue = "mail", aging = "often")]
async fn send(order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
