use queue_core::prelude::*;

mod web {
    pub struct Data<T>(pub T);
}

use web::Data;

pub struct Shop;

#[task]
async fn send(shop: Data<Shop>) {
    let _ = &shop.0;
}

fn main() {}
