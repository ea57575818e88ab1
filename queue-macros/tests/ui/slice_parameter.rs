use queue_core::prelude::*;

#[task(blocking)]
fn send(to: &[u8]) {
    let _ = to;
}

fn main() {}
