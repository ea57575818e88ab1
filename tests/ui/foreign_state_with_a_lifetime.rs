use queue_core::prelude::*;

mod desktop {
    pub struct State<'a, T>(pub &'a T);
}

pub struct Shop;

#[task]
async fn send(shop: desktop::State<'_, Shop>) {
    let _ = &shop.0;
}

fn main() {}
