use queue_core::prelude::*;

#[task(group = rate)]
async fn send(rate: f64) {
    drop(rate);
}

fn main() {
    drop(send::job(1.0));
}
