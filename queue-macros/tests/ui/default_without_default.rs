use queue_core::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Order;

#[task]
async fn send(#[default] order: Order) {
    let _ = order;
}

fn main() {}
