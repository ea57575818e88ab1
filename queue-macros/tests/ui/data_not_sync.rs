use queue_core::prelude::*;

use std::cell::Cell;

#[task]
async fn send(count: Data<Cell<u64>>) {
    let _ = count.get();
}

fn main() {}
