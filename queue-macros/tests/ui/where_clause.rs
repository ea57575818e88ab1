use queue_core::prelude::*;

#[task]
async fn send(order_id: u64)
where
    u64: Copy,
{
    let _ = order_id;
}

fn main() {
    drop(send::job(1));
}
