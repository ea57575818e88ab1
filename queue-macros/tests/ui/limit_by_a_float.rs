use queue_core::prelude::*;

#[task(limit(by = [share], concurrency = 2))]
async fn send(share: f64) {
    drop(share);
}

fn main() {
    drop(send::job(1.0));
}
