use queue_core::prelude::*;

#[task]
async fn send(to: &str) {
    let _ = to;
}

fn main() {
    drop(send::job("Ada"));
}
