use queue_core::prelude::*;

struct Shop;

#[task]
async fn send(#[inject(Shop)] shop: Data<Shop>) {
    let _ = shop;
}

fn main() {}
