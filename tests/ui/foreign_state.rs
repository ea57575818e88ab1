use queue_core::prelude::*;

mod web {
    pub struct State<T>(pub T);
}

use web::State;

pub struct Shop;

#[task]
async fn send(shop: State<Shop>) {
    let _ = &shop.0;
}

fn main() {}
