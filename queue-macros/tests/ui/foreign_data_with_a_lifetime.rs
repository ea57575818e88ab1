use queue_core::prelude::*;

mod desktop {
    pub struct Data<'a, T>(pub &'a T);
}

pub struct Shop;

#[task]
async fn send(shop: desktop::Data<'_, Shop>) {
    let _ = &shop.0;
}

fn main() {}
