use queue_core::prelude::*;

#[task(alias = "mail", alias = "mail")]
async fn send(order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
