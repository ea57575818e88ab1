use queue_core::prelude::*;

pub struct Refused;

#[task]
async fn send(order_id: u64) -> Result<(), Refused> {
    let _ = order_id;
    Err(Refused)
}

fn main() {
    drop(send::job(1));
}
