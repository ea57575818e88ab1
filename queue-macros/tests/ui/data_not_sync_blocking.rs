use queue_core::prelude::*;

use std::cell::Cell;

#[task(blocking)]
fn count(total: Data<Cell<u64>>) {
    total.set(total.get() + 1);
}

fn main() {}
