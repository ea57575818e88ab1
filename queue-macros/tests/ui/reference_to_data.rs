use queue_core::prelude::*;

struct Shop;

#[task]
async fn send(shop: &Data<Shop>) {
    let _ = shop;
}

fn main() {}
