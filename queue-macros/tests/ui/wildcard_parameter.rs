use queue_core::prelude::*;

#[task]
async fn send(_: u64) {}

fn main() {
    drop(send::job(1));
}
