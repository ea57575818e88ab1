use queue_core::prelude::*;

use std::marker::PhantomData;

#[derive(Default, serde::Serialize, serde::Deserialize)]
pub struct Order(PhantomData<*const u8>);

#[task]
async fn send(order: Order) {
    let _ = order;
}

fn main() {}
