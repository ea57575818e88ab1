use queue_core::prelude::*;

type State<T> = Data<T>;

pub struct Shop;

#[task]
async fn send(shop: State<Shop>) {
    let _ = shop;
}

fn main() {
    let _ = Shop;
}
