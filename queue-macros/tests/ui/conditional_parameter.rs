use queue_core::prelude::*;

#[task]
async fn send(order_id: u64, #[cfg(unix)] uid: u32) {
    let _ = (order_id, uid);
}

fn main() {}
