use queue_core::prelude::*;

#[task]
async fn send<'a>(order_id: u64) {
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
