use queue_core::{Done, prelude::*};

#[task]
async fn pay(order: u64) -> Result<Done<u64>, String> {
    Ok(order)
}

fn main() {}
