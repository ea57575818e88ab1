use queue_core::prelude::*;

struct Shop;

#[task]
async fn send(shop: &State<Shop>) {
    let _ = shop;
}

fn main() {}
