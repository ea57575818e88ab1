use queue_core::prelude::*;

#[task]
async fn send((order_id, copies): (u64, u8)) {
    let _ = (order_id, copies);
}

fn main() {
    drop(send::job((1, 2)));
}
