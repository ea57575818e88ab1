use queue_core::{Done, prelude::*};

fn charge(order: u64) -> Result<u64, String> {
    Ok(order)
}

#[task]
async fn pay(order: u64) -> Result<Done<u64>, String> {
    charge(order)
}

fn main() {}
