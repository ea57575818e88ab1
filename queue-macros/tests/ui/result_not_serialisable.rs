use queue_core::prelude::*;

pub struct Receipt;

#[task]
async fn send(order_id: u64) -> Result<Receipt, std::io::Error> {
    let _ = order_id;
    Ok(Receipt)
}

fn main() {
    drop(send::job(1));
}
